// The wire format: round trips, truncation, each value that must be refused, and the bytes as they are.
#include "transport/tcp/wire_format.h"

#include <array>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pvrdma::transport::tcp {
namespace {

using State = Decoded::State;
using verbs::Extra;
using verbs::RequestOp;
using verbs::Syndrome;

using Bytes = std::vector<std::byte>;

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  template <typename T>
  T any() {
    return static_cast<T>(engine_());
  }
  std::uint64_t below(std::uint64_t limit) { return engine_() % limit; }
  bool flip() { return below(2) == 0; }
  template <typename T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }
  std::string text(std::size_t longest, std::string_view alphabet) {
    std::string text(below(longest + 1), ' ');
    for (char& c : text) c = alphabet[below(alphabet.size())];
    return text;
  }
  verbs::Endpoint endpoint() {
    verbs::Endpoint endpoint;
    for (auto& byte : endpoint.gid.bytes) byte = any<std::uint8_t>();
    endpoint.qpn = verbs::Qpn(any<std::uint32_t>() & 0xff'ffff);
    return endpoint;
  }
  HelloId hello_id() {
    HelloId id{};
    for (auto& byte : id) byte = any<std::uint8_t>();
    return id;
  }
  SegmentId segment() {
    return {.dvs = static_cast<std::uint32_t>(1 + below(0xffff'ffff)),
            .vlan = static_cast<std::uint16_t>(below(4096))};
  }

 private:
  std::mt19937_64 engine_;
};

constexpr std::string_view kNameLetters = "abcXYZ019._-";
constexpr std::string_view kSentenceLetters = "The peer's 42 frames: ~!?";

Hello any_hello(Random& random) {
  const auto lanes = static_cast<std::uint16_t>(1 + random.below(kLanesMax));
  return {.host = HostName("h" + random.text(63, kNameLetters)),
          .lane = static_cast<std::uint16_t>(random.below(lanes)),
          .lanes = lanes,
          .id = random.hello_id()};
}

Welcome any_welcome(Random& random) {
  return {.host = HostName("h" + random.text(63, kNameLetters)), .id = random.hello_id()};
}

Reject any_reject(Random& random) {
  return {.reason = static_cast<RejectReason>(1 + random.below(6)),
          .version = random.any<std::uint16_t>(),
          .sentence = Sentence(random.text(200, kSentenceLetters))};
}

Goodbye any_goodbye(Random& random) {
  return {.reason = static_cast<GoodbyeReason>(1 + random.below(6)),
          .sentence = Sentence(random.text(200, kSentenceLetters))};
}

verbs::Request any_request(Random& random) {
  verbs::Request request;
  request.from = random.endpoint();
  request.to = random.endpoint();
  request.number = verbs::MessageNumber(random.any<std::uint32_t>());
  request.psn = verbs::Psn(random.any<std::uint32_t>());
  request.op = static_cast<RequestOp>(random.below(5));
  if (request.op == RequestOp::kSend) {
    request.extra = static_cast<Extra>(random.below(3));
  } else if (request.op == RequestOp::kWrite && random.flip()) {
    request.extra = Extra::kImmediate;
  }
  request.solicited = random.flip();
  if (request.extra != Extra::kNone) request.extra_value = random.any<std::uint32_t>();
  request.bytes =
      request.is_atomic() ? 8 : static_cast<std::uint32_t>(random.below(verbs::kPieceBytesMax + 1));
  request.offset = request.is_atomic() ? 0 : random.any<std::uint32_t>() & 0x3fff'ffff;
  request.message_bytes = request.offset + request.bytes + (random.flip() ? 0 : 1000);
  if (request.op != RequestOp::kSend) {
    request.remote_addr = random.any<std::uint64_t>();
    request.rkey = random.any<std::uint32_t>();
  }
  if (request.is_atomic()) request.compare_add = random.any<std::uint64_t>();
  if (request.op == RequestOp::kCompareSwap) request.swap = random.any<std::uint64_t>();
  return request;
}

verbs::Response any_response(Random& random) {
  verbs::Response response;
  response.from = random.endpoint();
  response.to = random.endpoint();
  response.number = verbs::MessageNumber(random.any<std::uint32_t>());
  response.syndrome = random.flip() ? Syndrome::kAck : static_cast<Syndrome>(random.below(7));
  response.op = static_cast<RequestOp>(random.below(5));
  response.rnr_timer = static_cast<std::uint8_t>(random.below(32));
  response.offset = random.any<std::uint32_t>() & 0x7fff'ffff;
  if (response.syndrome == Syndrome::kAck && response.op == RequestOp::kRead)
    response.bytes = static_cast<std::uint32_t>(random.below(verbs::kPieceBytesMax + 1));
  if (response.syndrome == Syndrome::kAck && response.op > RequestOp::kRead)
    response.atomic_original = random.any<std::uint64_t>();
  return response;
}

verbs::Datagram any_datagram(Random& random) {
  verbs::Datagram datagram;
  datagram.from = random.endpoint();
  datagram.to = random.endpoint();
  datagram.qkey = random.any<std::uint32_t>();
  if (random.flip()) {
    datagram.extra = Extra::kImmediate;
    datagram.extra_value = random.any<std::uint32_t>();
  }
  datagram.solicited = random.flip();
  datagram.bytes = static_cast<std::uint32_t>(random.below(kDatagramBytesMax + 1));
  datagram.flow_label = static_cast<std::uint32_t>(random.below(1 << 20));
  datagram.traffic_class = random.any<std::uint8_t>();
  datagram.hop_limit = random.any<std::uint8_t>();
  datagram.roce = random.one_of({RoceVersion::kV1, RoceVersion::kV2});
  return datagram;
}

constexpr std::size_t kKinds = std::variant_size_v<Body>;

Frame any_frame(std::size_t kind, Random& random) {
  Frame frame;
  frame.sequence = random.any<std::uint64_t>();
  frame.segment = random.segment();
  switch (kind) {
    case 0:
      frame = {.sequence = 0, .segment = {}, .body = any_hello(random)};
      break;
    case 1:
      frame = {.sequence = 0, .segment = {}, .body = any_welcome(random)};
      break;
    case 2:
      frame = {.sequence = 0, .segment = {}, .body = any_reject(random)};
      break;
    case 3:
      frame.body = any_request(random);
      break;
    case 4:
      frame.body = any_response(random);
      break;
    case 5:
      frame.body = any_datagram(random);
      break;
    case 6:
      frame = {.sequence = frame.sequence, .segment = {}, .body = Ping{random.any<std::uint64_t>()}};
      break;
    default:
      frame = {.sequence = frame.sequence, .segment = {}, .body = any_goodbye(random)};
      break;
  }
  return frame;
}

Bytes encoded(const Frame& frame) {
  Head head;
  const auto bytes = encode(frame, head);
  return {bytes.begin(), bytes.end()};
}

std::uint32_t payload_of(const Frame& frame) {
  return std::visit(
      [](const auto& body) -> std::uint32_t {
        if constexpr (requires { payload_bytes(body); }) return payload_bytes(body);
        return 0;
      },
      frame.body);
}

void expect_same(const verbs::Request& a, const verbs::Request& b) {
  EXPECT_EQ(a.from, b.from);
  EXPECT_EQ(a.to, b.to);
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.psn, b.psn);
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.extra, b.extra);
  EXPECT_EQ(a.solicited, b.solicited);
  EXPECT_EQ(a.extra_value, b.extra_value);
  EXPECT_EQ(a.message_bytes, b.message_bytes);
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.remote_addr, b.remote_addr);
  EXPECT_EQ(a.rkey, b.rkey);
  EXPECT_EQ(a.compare_add, b.compare_add);
  EXPECT_EQ(a.swap, b.swap);
}
void expect_same(const verbs::Response& a, const verbs::Response& b) {
  EXPECT_EQ(a.from, b.from);
  EXPECT_EQ(a.to, b.to);
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.syndrome, b.syndrome);
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.rnr_timer, b.rnr_timer);
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.atomic_original, b.atomic_original);
}
void expect_same(const verbs::Datagram& a, const verbs::Datagram& b) {
  EXPECT_EQ(a.from, b.from);
  EXPECT_EQ(a.to, b.to);
  EXPECT_EQ(a.qkey, b.qkey);
  EXPECT_EQ(a.extra, b.extra);
  EXPECT_EQ(a.solicited, b.solicited);
  EXPECT_EQ(a.extra_value, b.extra_value);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.flow_label, b.flow_label);
  EXPECT_EQ(a.traffic_class, b.traffic_class);
  EXPECT_EQ(a.hop_limit, b.hop_limit);
  EXPECT_EQ(a.roce, b.roce);
}
template <typename Said>
void expect_same(const Said& a, const Said& b) {
  EXPECT_TRUE(a == b);
}

void expect_same(const Frame& a, const Frame& b) {
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.segment, b.segment);
  ASSERT_EQ(a.body.index(), b.body.index());
  std::visit(
      [&](const auto& body) { expect_same(body, std::get<std::remove_cvref_t<decltype(body)>>(b.body)); },
      a.body);
}

TEST(WireFormatTest, EveryKindComesBackAsItWas) {
  Random random(20260801);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    for (int round = 0; round < 500; ++round) {
      const Frame sent = any_frame(kind, random);
      Bytes bytes = encoded(sent);
      ASSERT_FALSE(bytes.empty());
      const std::size_t head_bytes = bytes.size();
      bytes.resize(head_bytes + random.below(300));  // the payload, or the next frame
      Frame received;
      const Decoded decoded = decode(bytes, received);
      ASSERT_EQ(decoded.state, State::kComplete) << describe(decoded.fault);
      EXPECT_EQ(decoded.head_bytes, head_bytes);
      EXPECT_EQ(decoded.payload_bytes, payload_of(sent));
      expect_same(sent, received);
    }
  }
}

TEST(WireFormatTest, APartOfAHeadAsksForMoreAndNeverForTooMuch) {
  Random random(7);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const Bytes bytes = encoded(any_frame(kind, random));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      Frame frame;
      const Decoded decoded = decode(std::span(bytes).first(size), frame);
      ASSERT_EQ(decoded.state, State::kNeedMore) << "kind " << kind << " of " << size;
      EXPECT_GT(decoded.head_bytes, size);
      EXPECT_LE(decoded.head_bytes, bytes.size());
    }
  }
}

TEST(WireFormatTest, WhatAnOperationDoesNotUseIsNotSent) {
  verbs::Request request{.op = RequestOp::kSend,
                         .extra_value = 1,
                         .message_bytes = 4,
                         .bytes = 4,
                         .remote_addr = 2,
                         .rkey = 3,
                         .compare_add = 4,
                         .swap = 5};
  Head head;
  Frame frame;
  for (const RequestOp op : {RequestOp::kSend, RequestOp::kWrite, RequestOp::kRead, RequestOp::kCompareSwap,
                             RequestOp::kFetchAdd}) {
    request.op = op;
    const auto bytes = encode(1, {.dvs = 1, .vlan = 2}, request, head);
    ASSERT_EQ(decode(bytes, frame).state, State::kComplete);
    verbs::Request expected = request;
    expected.extra_value = 0;
    if (op == RequestOp::kSend) expected.remote_addr = expected.rkey = 0;
    if (!request.is_atomic()) expected.compare_add = 0;
    if (op != RequestOp::kCompareSwap) expected.swap = 0;
    expect_same(expected, std::get<verbs::Request>(frame.body));
  }
}

TEST(WireFormatTest, WhatCannotBeIsNotEncoded) {
  Random random(3);
  Head head;
  const SegmentId segment{.dvs = 1, .vlan = 2};
  const auto request = [&](auto&& spoil) {
    verbs::Request r = any_request(random);
    spoil(r);
    return encode(1, segment, r, head).empty();
  };
  EXPECT_TRUE(request([](auto& r) { r.to.qpn = verbs::Qpn(0x100'0000); }));
  EXPECT_TRUE(request([](auto& r) { r.op = static_cast<RequestOp>(5); }));
  EXPECT_TRUE(request([](auto& r) { r.extra = static_cast<Extra>(3); }));
  EXPECT_TRUE(request([](auto& r) { r.bytes = verbs::kPieceBytesMax + 1; }));
  EXPECT_TRUE(request([](auto& r) { r.offset = r.message_bytes + 1; }));
  EXPECT_TRUE(request([](auto& r) { r.bytes = r.message_bytes - r.offset + 1; }));
  EXPECT_FALSE(request([](auto&) {}));
  EXPECT_TRUE(encode(1, SegmentId{}, any_request(random), head).empty());
  EXPECT_TRUE(encode(1, {.dvs = 1, .vlan = 4096}, any_response(random), head).empty());
  EXPECT_TRUE(encode(Hello{}, head).empty());
  EXPECT_TRUE(encode(Hello{.host = HostName("a b")}, head).empty());
  EXPECT_TRUE(encode(Hello{.host = HostName("a"), .lane = 1, .lanes = 1}, head).empty());
  EXPECT_TRUE(encode(Welcome{}, head).empty());
  EXPECT_TRUE(encode(Reject{}, head).empty());
  EXPECT_TRUE(encode(9, Goodbye{}, head).empty());
  verbs::Datagram datagram = any_datagram(random);
  datagram.bytes = kDatagramBytesMax + 1;
  EXPECT_TRUE(encode(1, segment, datagram, head).empty());
}

TEST(WireFormatTest, TextsAreSafeForALog) {
  EXPECT_EQ(Sentence("a\nb\x1b[2J\xc3\xa4").view(), "a?b?[2J??");
  EXPECT_EQ(Sentence(std::string(300, 'x')).view(), std::string(200, 'x'));
}

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

TEST(WireFormatTest, EachFieldsBadValuesAreRefused) {
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

TEST(WireFormatTest, GarbageIsRefusedByItsHeaderAlone) {
  const std::string_view http = "GET /api/v1/hosts HTTP/1.1\r\n";
  Frame frame;
  EXPECT_EQ(decode(std::as_bytes(std::span(http)).first(kHeaderBytes), frame).fault, Fault::kKind);
  const Bytes zeros(kHeaderBytes);
  EXPECT_EQ(decode(zeros, frame).fault, Fault::kKind);
}

TEST(WireFormatTest, AnotherVersionsHelloIsNamedWhateverFollows) {
  Bytes bytes = encoded({.body = Hello{.host = HostName("future")}});
  bytes[kHeaderBytes + 9] = std::byte{kProtocolVersion + 1};
  bytes[1] = std::byte{0xff};  // a length that this version has not
  Frame frame;
  const Decoded decoded = decode(std::span(bytes).first(kHeaderBytes + 10), frame);
  EXPECT_EQ(decoded.fault, Fault::kVersion);
  EXPECT_EQ(decoded.version, kProtocolVersion + 1);
}

TEST(WireFormatTest, ARejectIsReadInAnyVersion) {
  const Frame sent{
      .body = Reject{.reason = RejectReason::kWrongVersion, .version = 9, .sentence = Sentence("9 only")}};
  Frame received;
  ASSERT_EQ(decode(encoded(sent), received).state, State::kComplete);
  expect_same(sent, received);
}

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

// A change here is another protocol version.
TEST(WireFormatTest, TheBytesAreTheseAndNoOthers) {
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
}  // namespace pvrdma::transport::tcp
