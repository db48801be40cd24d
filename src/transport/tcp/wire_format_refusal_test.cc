// The wire format: each value that must be refused, and what is no frame of this version.
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

#include "transport/tcp/wire_format.h"
#include "transport/tcp/wire_format_fixture.h"

namespace pvrdma::transport::tcp {
namespace {

using State = Decoded::State;
using verbs::RequestOp;
using verbs::Syndrome;

// A frame, and one change of its bytes that makes it bad.
struct Spoilt {
  std::string what;
  Body body;
  std::size_t at;     // in the frame
  std::size_t bytes;  // of the field
  std::uint64_t value;
  Fault fault;
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
      {"length: shorter than a head", send, 0, 4, 119, Fault::kFrameBytes},
      {"length: one less", send, 0, 4, 219, Fault::kFrameBytes},
      {"length: one more", send, 0, 4, 221, Fault::kFrameBytes},
      {"length: beyond a segment", send, 0, 4, 120 + (256 << 10) + 1, Fault::kFrameBytes},
      {"length: all ones", send, 0, 4, 0xffff'ffff, Fault::kFrameBytes},
      {"length: 0", send, 0, 4, 0, Fault::kFrameBytes},
      {"length: a read with a payload", read, 0, 4, 220, Fault::kFrameBytes},
      {"length: a read's answer without one", data, 0, 4, 88, Fault::kFrameBytes},
      {"length: an ack with a payload", ack, 0, 4, 89, Fault::kFrameBytes},
      {"length: of a ping", Ping{}, 0, 4, 33, Fault::kFrameBytes},
      {"length: of a hello", hello, 0, 4, 24 + 32 + 7, Fault::kFrameBytes},
      {"length: of a goodbye", goodbye, 0, 4, 24 + 4 + 201, Fault::kFrameBytes},
      {"kind 0", send, 4, 1, 0, Fault::kKind},
      {"kind 9", send, 4, 1, 9, Fault::kKind},
      {"flags", send, 5, 1, 1, Fault::kReservedBits},
      {"VLAN 4096", send, 6, 2, 4096, Fault::kSegment},
      {"no switch and no VLAN", send, 6, 6, 0, Fault::kSegment},
      {"VLAN of a ping", Ping{}, 6, 2, 1, Fault::kUnusedField},
      {"switch of a hello", hello, 8, 4, 1, Fault::kUnusedField},
      {"reserved in the header", ack, 12, 4, 1U << 31, Fault::kReservedBits},
      {"sequence of a hello", hello, 16, 8, 1, Fault::kSequence},
      {"sequence of a welcome", welcome, 16, 8, 1ULL << 63, Fault::kSequence},
      {"sequence of a reject", reject, 16, 8, 1, Fault::kSequence},

      {"magic", hello, kB, 1, 0, Fault::kMagic},
      {"magic of a welcome", welcome, kB + 7, 1, 13, Fault::kMagic},
      {"magic of a reject", reject, kB + 1, 1, 'p', Fault::kMagic},
      {"version 0", hello, kB + 8, 2, 0, Fault::kVersion},
      {"version 1", hello, kB + 8, 2, 1, Fault::kVersion},
      {"version of a welcome", welcome, kB + 8, 2, 0xffff, Fault::kVersion},
      {"lane", hello, kB + 10, 2, 4, Fault::kLane},
      {"no lanes", hello, kB + 12, 2, 0, Fault::kLane},
      {"17 lanes", hello, kB + 12, 2, 17, Fault::kLane},
      {"name longer than the frame", hello, kB + 14, 2, 7, Fault::kFrameBytes},
      {"name shorter than the frame", welcome, kB + 14, 2, 5, Fault::kFrameBytes},
      {"name of 65", hello, kB + 14, 2, 65, Fault::kFrameBytes},
      {"name with a slash", hello, kB + 32, 1, '/', Fault::kHostName},
      {"name with a NUL", welcome, kB + 37, 1, 0, Fault::kHostName},
      {"reserved in a welcome", welcome, kB + 10, 4, 1, Fault::kReservedBits},
      {"reason 0", reject, kB + 10, 2, 0, Fault::kReason},
      {"reason 7", reject, kB + 10, 2, 7, Fault::kReason},
      {"reserved in a reject", reject, kB + 12, 2, 1, Fault::kReservedBits},
      {"sentence longer than the frame", reject, kB + 14, 2, 3, Fault::kFrameBytes},
      {"sentence with a line feed", reject, kB + 16, 1, '\n', Fault::kSentence},
      {"goodbye's reason 0", goodbye, kB, 2, 0, Fault::kReason},
      {"goodbye's reason 7", goodbye, kB, 2, 7, Fault::kReason},
      {"goodbye's sentence", goodbye, kB + 2, 2, 2, Fault::kFrameBytes},
      {"goodbye's escape", goodbye, kB + 6, 1, 0x1b, Fault::kSentence},

      {"QPN from", send, kB + 32, 4, 1 << 24, Fault::kQpn},
      {"QPN to", datagram, kB + 36, 4, 0xffff'ffff, Fault::kQpn},
      {"QPN of a response", ack, kB + 36, 4, 1 << 24, Fault::kQpn},
      {"number", send, kB + 40, 4, 1 << 24, Fault::kNumber},
      {"PSN", send, kB + 76, 4, 1 << 24, Fault::kPsn},
      {"number of a response", ack, kB + 40, 4, 1 << 24, Fault::kNumber},
      {"operation", send, kB + 44, 1, 5, Fault::kOp},
      {"extra", send, kB + 45, 1, 3, Fault::kExtra},
      {"invalidate with a write", write, kB + 45, 1, 2, Fault::kExtra},
      {"immediate with a read", read, kB + 45, 1, 1, Fault::kExtra},
      {"immediate with an atomic", atomic, kB + 45, 1, 1, Fault::kExtra},
      {"bits", send, kB + 46, 1, 2, Fault::kReservedBits},
      {"reserved in a request", send, kB + 47, 1, 1, Fault::kReservedBits},
      {"value without an extra", send, kB + 48, 4, 1, Fault::kUnusedField},
      {"message shorter than its segment", send, kB + 52, 4, 1099, Fault::kRange},
      {"offset beyond the end", send, kB + 56, 4, 300'001, Fault::kRange},
      {"offset and bytes wrap", send, kB + 56, 4, 0xffff'fff0, Fault::kRange},
      {"a segment too long", send, kB + 60, 4, (256 << 10) + 1, Fault::kRange},
      {"bytes and length differ", send, kB + 60, 4, 99, Fault::kFrameBytes},
      {"address of a send", send, kB + 64, 8, 1, Fault::kUnusedField},
      {"rkey of a send", send, kB + 72, 4, 1, Fault::kUnusedField},
      {"operand of a write", write, kB + 80, 8, 1, Fault::kUnusedField},
      {"second operand of an add", add, kB + 88, 8, 1, Fault::kUnusedField},

      {"operation answered", ack, kB + 44, 1, 5, Fault::kOp},
      {"syndrome", ack, kB + 45, 1, 7, Fault::kSyndrome},
      {"RNR timer", ack, kB + 46, 1, 32, Fault::kRnrTimer},
      {"reserved in a response", ack, kB + 47, 1, 1, Fault::kReservedBits},
      {"offset and bytes of data wrap", data, kB + 48, 4, 0xffff'ffff, Fault::kRange},
      {"data with an ack", ack, kB + 52, 4, 1, Fault::kRange},
      {"data too long", data, kB + 52, 4, (256 << 10) + 1, Fault::kRange},
      {"original with a NAK", nak, kB + 56, 8, 1, Fault::kUnusedField},
      {"original with a send", ack, kB + 56, 8, 1, Fault::kUnusedField},

      {"datagram's extra", datagram, kB + 44, 1, 2, Fault::kExtra},
      {"datagram's bits", datagram, kB + 45, 1, 0x80, Fault::kReservedBits},
      {"RoCE 0", datagram, kB + 46, 1, 0, Fault::kRoce},
      {"RoCE 3", datagram, kB + 46, 1, 3, Fault::kRoce},
      {"datagram's value without an extra", datagram, kB + 48, 4, 1, Fault::kUnusedField},
      {"datagram too long", datagram, kB + 52, 4, 4097, Fault::kDatagramBytes},
      {"datagram's bytes and length differ", datagram, kB + 52, 4, 101, Fault::kFrameBytes},
      {"flow label", datagram, kB + 56, 4, 1 << 20, Fault::kFlowLabel},
      {"reserved in a datagram", datagram, kB + 61, 1, 1, Fault::kReservedBits},
      {"reserved at a datagram's end", datagram, kB + 63, 1, 1, Fault::kReservedBits},
  };
  std::array<bool, kFaults> seen{};
  for (const Spoilt& spoilt : all) {
    Frame frame;
    const Decoded decoded = decode(spoil(spoilt), frame);
    EXPECT_EQ(decoded.state, State::kBad) << spoilt.what;
    EXPECT_EQ(decoded.fault, spoilt.fault) << spoilt.what << ": " << describe(decoded.fault);
    EXPECT_EQ(frame.body.index(), 0u) << "only what is complete is handed out";
    seen[static_cast<std::size_t>(decoded.fault)] = true;
  }
  for (std::size_t fault = 1; fault < kFaults; ++fault)
    EXPECT_TRUE(seen[fault]) << "no case for: " << describe(static_cast<Fault>(fault));
}

TEST(WireFormatRefusalTest, EachFaultHasItsOwnWords) {
  std::set<std::string_view> told;
  for (std::size_t fault = 0; fault < kFaults; ++fault) {
    const std::string_view words = describe(static_cast<Fault>(fault));
    EXPECT_TRUE(told.insert(words).second) << words;
    EXPECT_EQ(Sentence(words).view(), words) << "told to the peer as it is";
  }
}

TEST(WireFormatRefusalTest, GarbageIsRefusedByItsHeaderAlone) {
  const std::string_view http = "GET /api/v1/hosts HTTP/1.1\r\n";
  Frame frame;
  EXPECT_EQ(decode(std::as_bytes(std::span(http)).first(kHeaderBytes), frame).fault, Fault::kKind);
  const Bytes zeros(kHeaderBytes);
  EXPECT_EQ(decode(zeros, frame).fault, Fault::kKind);
}

TEST(WireFormatRefusalTest, AnotherVersionsHelloIsNamedWhateverFollows) {
  Bytes bytes = encoded({.body = Hello{.host = HostName("future")}});
  bytes[kHeaderBytes + 9] = std::byte{kProtocolVersion + 1};
  bytes[1] = std::byte{0xff};  // a length that this version has not
  Frame frame;
  const Decoded decoded = decode(std::span(bytes).first(kHeaderBytes + 10), frame);
  EXPECT_EQ(decoded.fault, Fault::kVersion);
  EXPECT_EQ(decoded.version, kProtocolVersion + 1);
}

}  // namespace
}  // namespace pvrdma::transport::tcp
