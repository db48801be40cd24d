// The wire format, byte by byte.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"

#include "transport/wire/format.h"
#include "transport/wire/format_fixture.h"

namespace pvrdma::transport::wire {
namespace {

using verbs::Extra;
using verbs::RequestOp;
using verbs::Syndrome;

std::string hex(const Bytes& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i != 0 && i % 8 == 0) text += ' ';
    const auto value = std::to_integer<unsigned>(bytes[i]);
    text += "0123456789abcdef"[value >> 4];
    text += "0123456789abcdef"[value & 15];
  }
  return text;
}

// If these bytes change, the protocol needs a new version.
TEST(WireFormatBytesTest, TheBytesAreTheseAndNoOthers) {
  HelloId id{};
  verbs::Gid from;
  verbs::Gid to;
  for (std::uint8_t i = 0; i < 16; ++i) {
    id[i] = static_cast<std::uint8_t>(0xf0 + i);
    from.bytes[i] = static_cast<std::uint8_t>(0x10 + i);
    to.bytes[i] = static_cast<std::uint8_t>(0x20 + i);
  }
  const verbs::Endpoint source{.gid = from, .qpn = verbs::Qpn(0x31'3233)};
  const verbs::Endpoint target{.gid = to, .qpn = verbs::Qpn(0x41'4243)};
  const SegmentId segment{.dvs = 0x0102'0304, .vlan = 0x0506};
  constexpr std::uint64_t kSequence = 0x0102'0304'0506'0708;
  const std::string ends =
      " 1011121314151617 18191a1b1c1d1e1f 2021222324252627 28292a2b2c2d2e2f 0031323300414243";

  EXPECT_EQ(hex(encoded({.body = Hello{.host = HostName("esx-01"), .lane = 2, .lanes = 4, .id = id}})),
            "0000003e01000000 0000000000000000 0000000000000000"
            " 89505652444d410a 0002000200040006 f0f1f2f3f4f5f6f7 f8f9fafbfcfdfeff 6573782d3031");
  EXPECT_EQ(hex(encoded({.body = Hello{.host = HostName("esx-01"),
                                       .lane = 2,
                                       .lanes = 4,
                                       .id = id,
                                       .shard = ShardNumber(0x0708),
                                       .from_shard = ShardNumber(0x090a)}})),
            "0000004201000000 0000000000000000 0000000000000000"
            " 89505652444d410a 0003000200040006 f0f1f2f3f4f5f6f7 f8f9fafbfcfdfeff 0708090a6573782d 3031");
  EXPECT_EQ(hex(encoded({.body = Welcome{.host = HostName("esx-02"), .id = id}})),
            "0000003e02000000 0000000000000000 0000000000000000"
            " 89505652444d410a 0002000000000006 f0f1f2f3f4f5f6f7 f8f9fafbfcfdfeff 6573782d3032");
  EXPECT_EQ(hex(encoded({.body = Reject{.reason = RejectReason::kNotAllowed, .sentence = Sentence("no")}})),
            "0000002a03000000 0000000000000000 0000000000000000 89505652444d410a 0002000300000002 6e6f");
  EXPECT_EQ(hex(encoded({.sequence = kSequence,
                         .segment = segment,
                         .body = verbs::Request{.from = source,
                                                .to = target,
                                                .number = verbs::MessageNumber(0x51'5253),
                                                .psn = verbs::Psn(0xb1'b2b3),
                                                .op = RequestOp::kWrite,
                                                .extra = Extra::kImmediate,
                                                .solicited = true,
                                                .extra_value = 0x6162'6364,
                                                .message_bytes = 0x0010'0000,
                                                .offset = 0x0000'2000,
                                                .bytes = 0x0000'0100,
                                                .remote_addr = 0x7172'7374'7576'7778,
                                                .rkey = 0x8182'8384}})),
            "0000017804000506 0102030400000000 0102030405060708" + ends +
                " 0051525301010100 6162636400100000 0000200000000100 7172737475767778 8182838400b1b2b3"
                " 0000000000000000 0000000000000000");
  EXPECT_EQ(hex(encoded({.sequence = kSequence,
                         .segment = segment,
                         .body = verbs::Request{.from = source,
                                                .to = target,
                                                .op = RequestOp::kCompareSwap,
                                                .message_bytes = 8,
                                                .bytes = 8,
                                                .compare_add = 0x9192'9394'9596'9798,
                                                .swap = 0xa1a2'a3a4'a5a6'a7a8}})),
            "0000007804000506 0102030400000000 0102030405060708" + ends +
                " 0000000003000000 0000000000000008 0000000000000008 0000000000000000 0000000000000000"
                " 9192939495969798 a1a2a3a4a5a6a7a8");
  EXPECT_EQ(hex(encoded({.sequence = kSequence,
                         .segment = segment,
                         .body = verbs::Response{.from = source,
                                                 .to = target,
                                                 .number = verbs::MessageNumber(0x51'5253),
                                                 .syndrome = Syndrome::kAck,
                                                 .op = RequestOp::kFetchAdd,
                                                 .rnr_timer = 12,
                                                 .offset = 0x6162'6364,
                                                 .atomic_original = 0x7172'7374'7576'7778}})),
            "0000005805000506 0102030400000000 0102030405060708" + ends +
                " 0051525304000c00 6162636400000000 7172737475767778");
  EXPECT_EQ(hex(encoded({.sequence = kSequence,
                         .segment = segment,
                         .body = verbs::Datagram{.from = source,
                                                 .to = target,
                                                 .qkey = 0x5152'5354,
                                                 .extra = Extra::kImmediate,
                                                 .solicited = true,
                                                 .extra_value = 0x6162'6364,
                                                 .bytes = 0x100,
                                                 .flow_label = 0xa'bcde,
                                                 .traffic_class = 0x71,
                                                 .hop_limit = 0x81,
                                                 .roce = RoceVersion::kV2}})),
            "0000015806000506 0102030400000000 0102030405060708" + ends +
                " 5152535401010271 6162636400000100 000abcde81000000");
  EXPECT_EQ(hex(encoded({.sequence = kSequence, .body = Ping{0x1112'1314'1516'1718}})),
            "0000002007000000 0000000000000000 0102030405060708 1112131415161718");
  EXPECT_EQ(hex(encoded({.sequence = kSequence,
                         .body = Goodbye{.reason = GoodbyeReason::kSilent, .sentence = Sentence("bye")}})),
            "0000001f08000000 0000000000000000 0102030405060708 00060003627965");
}

}  // namespace
}  // namespace pvrdma::transport::wire
