#include "transport/wire/format_fixture.h"

#include <gtest/gtest.h>
#include <type_traits>

namespace pvrdma::transport::wire {
namespace {

using verbs::Extra;
using verbs::RequestOp;
using verbs::Syndrome;

constexpr std::string_view kNameLetters = "abcXYZ019._-";
constexpr std::string_view kSentenceLetters = "The peer's 42 frames: ~!?";

Hello any_hello(Random& random) {
  const auto lanes = static_cast<std::uint16_t>(1 + random.below(kLanesMax));
  return {.host = HostName("h" + random.text(63, kNameLetters)),
          .lane = static_cast<std::uint16_t>(random.below(lanes)),
          .lanes = lanes,
          .id = random.hello_id(),
          .shard = ShardNumber(static_cast<std::uint16_t>(random.below(3))),
          .from_shard = ShardNumber(static_cast<std::uint16_t>(random.below(3)))};
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

}  // namespace

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

void expect_same(const Frame& a, const Frame& b) {
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.segment, b.segment);
  ASSERT_EQ(a.body.index(), b.body.index());
  std::visit(
      [&](const auto& body) { expect_same(body, std::get<std::remove_cvref_t<decltype(body)>>(b.body)); },
      a.body);
}

}  // namespace pvrdma::transport::wire
