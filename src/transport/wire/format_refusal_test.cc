// The wire format: each value that must be refused, and bytes that are not a frame of this version.
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

#include "transport/wire/format.h"
#include "transport/wire/format_fixture.h"

namespace pvrdma::transport::wire {
namespace {

using State = Decoded::State;
using verbs::RequestOp;
using verbs::Syndrome;

// A frame and one change of its bytes that makes it invalid.
struct Spoilt {
  std::string what;
  Body body;
  std::size_t at;     // in the frame
  std::size_t bytes;  // of the field
  std::uint64_t value;
  Defect defect;
};

Bytes spoil(const Spoilt& spoilt) {
  const bool handshake = spoilt.body.index() < 3;
  const bool message = spoilt.body.index() >= 3 && spoilt.body.index() < 6;
  Bytes bytes = encoded({.sequence = handshake ? 0U : 77U,
                         .segment = message ? SegmentId{.dvs = 5, .vlan = 6} : SegmentId{},
                         .body = spoilt.body});
  EXPECT_FALSE(bytes.empty()) << spoilt.what;
  for (std::size_t i = 0; i < spoilt.bytes; ++i)
    bytes.at(spoilt.at + i) = static_cast<std::byte>(spoilt.value >> (8 * (spoilt.bytes - 1 - i)));
  return bytes;
}

TEST(WireFormatRefusalTest, EachFieldsBadValuesAreRefused) {
  const Hello hello{.host = HostName("esx-01"), .lane = 3, .lanes = 4};
  const Hello between_shards{.host = HostName("esx-01"), .lane = 3, .lanes = 4, .from_shard = ShardNumber(1)};
  const Welcome welcome{.host = HostName("esx-02")};
  const Reject reject{.reason = RejectReason::kNotAllowed, .sentence = Sentence("no")};
  const Goodbye goodbye{.reason = GoodbyeReason::kStopping, .sentence = Sentence("bye")};
  const verbs::Request send{.op = RequestOp::kSend, .message_bytes = 300'000, .offset = 1000, .bytes = 100};
  const verbs::Request write{.op = RequestOp::kWrite, .message_bytes = 100, .bytes = 100};
  const verbs::Request read{.op = RequestOp::kRead, .message_bytes = 100, .bytes = 100};
  const verbs::Request atomic{.op = RequestOp::kCompareSwap, .message_bytes = 8, .bytes = 8, .swap = 1};
  const verbs::Request add{.op = RequestOp::kFetchAdd, .message_bytes = 8, .bytes = 8};
  const verbs::Response ack{.syndrome = Syndrome::kAck, .op = RequestOp::kSend};
  const verbs::Response data{.syndrome = Syndrome::kAck, .op = RequestOp::kRead, .bytes = 100};
  const verbs::Response nak{.syndrome = Syndrome::kNakSequence, .op = RequestOp::kFetchAdd};
  const verbs::Datagram datagram{.bytes = 100, .roce = RoceVersion::kV2};
  constexpr std::size_t kB = kHeaderBytes;

  const std::vector<Spoilt> all = {
      {"length: shorter than a head", send, 0, 4, 119, Defect::kFrameBytes},
      {"length: one less", send, 0, 4, 219, Defect::kFrameBytes},
      {"length: one more", send, 0, 4, 221, Defect::kFrameBytes},
      {"length: beyond a segment", send, 0, 4, 120 + (256 << 10) + 1, Defect::kFrameBytes},
      {"length: all ones", send, 0, 4, 0xffff'ffff, Defect::kFrameBytes},
      {"length: 0", send, 0, 4, 0, Defect::kFrameBytes},
      {"length: a read with a payload", read, 0, 4, 220, Defect::kFrameBytes},
      {"length: a read's answer without one", data, 0, 4, 88, Defect::kFrameBytes},
      {"length: an ack with a payload", ack, 0, 4, 89, Defect::kFrameBytes},
      {"length: of a ping", Ping{}, 0, 4, 33, Defect::kFrameBytes},
      {"length: of a hello", hello, 0, 4, 24 + 32 + 7, Defect::kFrameBytes},
      {"length: of a goodbye", goodbye, 0, 4, 24 + 4 + 201, Defect::kFrameBytes},
      {"kind 0", send, 4, 1, 0, Defect::kKind},
      {"kind 9", send, 4, 1, 9, Defect::kKind},
      {"flags", send, 5, 1, 1, Defect::kReservedBits},
      {"VLAN 4096", send, 6, 2, 4096, Defect::kSegment},
      {"no switch and no VLAN", send, 6, 6, 0, Defect::kSegment},
      {"VLAN of a ping", Ping{}, 6, 2, 1, Defect::kUnusedField},
      {"switch of a hello", hello, 8, 4, 1, Defect::kUnusedField},
      {"reserved in the header", ack, 12, 4, 1U << 31, Defect::kReservedBits},
      {"sequence of a hello", hello, 16, 8, 1, Defect::kSequence},
      {"sequence of a welcome", welcome, 16, 8, 1ULL << 63, Defect::kSequence},
      {"sequence of a reject", reject, 16, 8, 1, Defect::kSequence},

      {"magic", hello, kB, 1, 0, Defect::kMagic},
      {"magic of a welcome", welcome, kB + 7, 1, 13, Defect::kMagic},
      {"magic of a reject", reject, kB + 1, 1, 'p', Defect::kMagic},
      {"version 0", hello, kB + 8, 2, 0, Defect::kVersion},
      {"version 1", hello, kB + 8, 2, 1, Defect::kVersion},
      {"version of a welcome", welcome, kB + 8, 2, 0xffff, Defect::kVersion},
      {"lane", hello, kB + 10, 2, 4, Defect::kLane},
      {"version 4 of a hello", between_shards, kB + 8, 2, 4, Defect::kVersion},
      {"a welcome of the version of a hello with shards", welcome, kB + 8, 2, 3, Defect::kVersion},
      {"a hello of version 2 with shards", between_shards, kB + 8, 2, 2, Defect::kFrameBytes},
      {"a hello of version 3 without shards", hello, kB + 8, 2, 3, Defect::kFrameBytes},
      {"a hello of version 3 between shards 0", between_shards, kB + 32, 4, 0, Defect::kShard},
      {"a call between shards", between_shards, kB + 10, 4, 0xffff'0001, Defect::kShard},
      {"length: of a hello with shards", between_shards, 0, 4, 24 + 36 + 7, Defect::kFrameBytes},
      {"no lanes", hello, kB + 12, 2, 0, Defect::kLane},
      {"17 lanes", hello, kB + 12, 2, 17, Defect::kLane},
      {"name longer than the frame", hello, kB + 14, 2, 7, Defect::kFrameBytes},
      {"name shorter than the frame", welcome, kB + 14, 2, 5, Defect::kFrameBytes},
      {"name of 65", hello, kB + 14, 2, 65, Defect::kFrameBytes},
      {"name with a slash", hello, kB + 32, 1, '/', Defect::kHostName},
      {"name with a NUL", welcome, kB + 37, 1, 0, Defect::kHostName},
      {"reserved in a welcome", welcome, kB + 10, 4, 1, Defect::kReservedBits},
      {"reason 0", reject, kB + 10, 2, 0, Defect::kReason},
      {"reason 7", reject, kB + 10, 2, 7, Defect::kReason},
      {"reserved in a reject", reject, kB + 12, 2, 1, Defect::kReservedBits},
      {"sentence longer than the frame", reject, kB + 14, 2, 3, Defect::kFrameBytes},
      {"sentence with a line feed", reject, kB + 16, 1, '\n', Defect::kSentence},
      {"goodbye's reason 0", goodbye, kB, 2, 0, Defect::kReason},
      {"goodbye's reason 7", goodbye, kB, 2, 7, Defect::kReason},
      {"goodbye's sentence", goodbye, kB + 2, 2, 2, Defect::kFrameBytes},
      {"goodbye's escape", goodbye, kB + 6, 1, 0x1b, Defect::kSentence},

      {"QPN from", send, kB + 32, 4, 1 << 24, Defect::kQpn},
      {"QPN to", datagram, kB + 36, 4, 0xffff'ffff, Defect::kQpn},
      {"QPN of a response", ack, kB + 36, 4, 1 << 24, Defect::kQpn},
      {"number", send, kB + 40, 4, 1 << 24, Defect::kNumber},
      {"PSN", send, kB + 76, 4, 1 << 24, Defect::kPsn},
      {"number of a response", ack, kB + 40, 4, 1 << 24, Defect::kNumber},
      {"operation", send, kB + 44, 1, 5, Defect::kOp},
      {"extra", send, kB + 45, 1, 3, Defect::kExtra},
      {"invalidate with a write", write, kB + 45, 1, 2, Defect::kExtra},
      {"immediate with a read", read, kB + 45, 1, 1, Defect::kExtra},
      {"immediate with an atomic", atomic, kB + 45, 1, 1, Defect::kExtra},
      {"bits", send, kB + 46, 1, 2, Defect::kReservedBits},
      {"reserved in a request", send, kB + 47, 1, 1, Defect::kReservedBits},
      {"value without an extra", send, kB + 48, 4, 1, Defect::kUnusedField},
      {"message shorter than its segment", send, kB + 52, 4, 1099, Defect::kRange},
      {"offset beyond the end", send, kB + 56, 4, 300'001, Defect::kRange},
      {"offset and bytes wrap", send, kB + 56, 4, 0xffff'fff0, Defect::kRange},
      {"a segment too long", send, kB + 60, 4, (256 << 10) + 1, Defect::kRange},
      {"bytes and length differ", send, kB + 60, 4, 99, Defect::kFrameBytes},
      {"address of a send", send, kB + 64, 8, 1, Defect::kUnusedField},
      {"rkey of a send", send, kB + 72, 4, 1, Defect::kUnusedField},
      {"operand of a write", write, kB + 80, 8, 1, Defect::kUnusedField},
      {"second operand of an add", add, kB + 88, 8, 1, Defect::kUnusedField},

      {"operation answered", ack, kB + 44, 1, 5, Defect::kOp},
      {"syndrome", ack, kB + 45, 1, 7, Defect::kSyndrome},
      {"RNR timer", ack, kB + 46, 1, 32, Defect::kRnrTimer},
      {"reserved in a response", ack, kB + 47, 1, 1, Defect::kReservedBits},
      {"offset and bytes of data wrap", data, kB + 48, 4, 0xffff'ffff, Defect::kRange},
      {"data with an ack", ack, kB + 52, 4, 1, Defect::kRange},
      {"data too long", data, kB + 52, 4, (256 << 10) + 1, Defect::kRange},
      {"original with a NAK", nak, kB + 56, 8, 1, Defect::kUnusedField},
      {"original with a send", ack, kB + 56, 8, 1, Defect::kUnusedField},

      {"datagram's extra", datagram, kB + 44, 1, 2, Defect::kExtra},
      {"datagram's bits", datagram, kB + 45, 1, 0x80, Defect::kReservedBits},
      {"RoCE 0", datagram, kB + 46, 1, 0, Defect::kRoce},
      {"RoCE 3", datagram, kB + 46, 1, 3, Defect::kRoce},
      {"datagram's value without an extra", datagram, kB + 48, 4, 1, Defect::kUnusedField},
      {"datagram too long", datagram, kB + 52, 4, 4097, Defect::kDatagramBytes},
      {"datagram's bytes and length differ", datagram, kB + 52, 4, 101, Defect::kFrameBytes},
      {"flow label", datagram, kB + 56, 4, 1 << 20, Defect::kFlowLabel},
      {"reserved in a datagram", datagram, kB + 61, 1, 1, Defect::kReservedBits},
      {"reserved at a datagram's end", datagram, kB + 63, 1, 1, Defect::kReservedBits},
  };
  std::array<bool, kDefects> seen{};
  for (const Spoilt& spoilt : all) {
    Frame frame;
    const Decoded decoded = decode(spoil(spoilt), frame);
    EXPECT_EQ(decoded.state, State::kBad) << spoilt.what;
    EXPECT_EQ(decoded.defect, spoilt.defect) << spoilt.what << ": " << describe(decoded.defect);
    EXPECT_EQ(frame.body.index(), 0u) << "only what is complete is handed out";
    seen[static_cast<std::size_t>(decoded.defect)] = true;
  }
  for (std::size_t defect = 1; defect < kDefects; ++defect)
    EXPECT_TRUE(seen[defect]) << "no case for: " << describe(static_cast<Defect>(defect));
}

TEST(WireFormatRefusalTest, EachDefectHasItsOwnWords) {
  std::set<std::string_view> told;
  for (std::size_t defect = 0; defect < kDefects; ++defect) {
    const std::string_view words = describe(static_cast<Defect>(defect));
    EXPECT_TRUE(told.insert(words).second) << words;
    EXPECT_EQ(Sentence(words).view(), words) << "told to the peer as it is";
  }
}

TEST(WireFormatRefusalTest, GarbageIsRefusedByItsHeaderAlone) {
  const std::string_view http = "GET /api/v1/hosts HTTP/1.1\r\n";
  Frame frame;
  EXPECT_EQ(decode(std::as_bytes(std::span(http)).first(kHeaderBytes), frame).defect, Defect::kKind);
  const Bytes zeros(kHeaderBytes);
  EXPECT_EQ(decode(zeros, frame).defect, Defect::kKind);
}

TEST(WireFormatRefusalTest, AnotherVersionsHelloIsNamedWhateverFollows) {
  Bytes bytes = encoded({.body = Hello{.host = HostName("future")}});
  bytes[kHeaderBytes + 9] = std::byte{kShardHelloVersion + 1};
  bytes[1] = std::byte{0xff};  // no frame of this version has this length
  Frame frame;
  const Decoded decoded = decode(std::span(bytes).first(kHeaderBytes + 10), frame);
  EXPECT_EQ(decoded.defect, Defect::kVersion);
  EXPECT_EQ(decoded.version, kShardHelloVersion + 1);
}

}  // namespace
}  // namespace pvrdma::transport::wire
