// The wire format: decoding returns what was encoded, however the bytes are split. Invalid messages are not
// encoded.
#include "transport/wire/format.h"

#include <cstdint>
#include <string>
#include <variant>

#include "gtest/gtest.h"

#include "transport/wire/format_fixture.h"

namespace pvrdma::transport::wire {
namespace {

using State = Decoded::State;
using verbs::Extra;
using verbs::RequestOp;

std::uint32_t payload_of(const Frame& frame) {
  return std::visit(
      [](const auto& body) -> std::uint32_t {
        if constexpr (requires { payload_bytes(body); }) return payload_bytes(body);
        return 0;
      },
      frame.body);
}

TEST(WireFormatTest, EveryKindComesBackAsItWas) {
  Random random(20260801);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    for (int round = 0; round < 500; ++round) {
      const Frame sent = any_frame(kind, random);
      Bytes bytes = encoded(sent);
      ASSERT_FALSE(bytes.empty());
      const std::size_t head_bytes = bytes.size();
      bytes.resize(head_bytes + random.below(300));  // the payload or the next frame
      Frame received;
      const Decoded decoded = decode(bytes, received);
      ASSERT_EQ(decoded.state, State::kComplete) << describe(decoded.defect);
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
  EXPECT_TRUE(encode(Hello{.host = HostName("a"), .lane = kCallLane, .shard = ShardNumber(1)}, head).empty());
  EXPECT_TRUE(
      encode(Hello{.host = HostName("a"), .lane = kCallLane, .from_shard = ShardNumber(1)}, head).empty());
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

TEST(WireFormatTest, ARejectIsReadInAnyVersion) {
  const Frame sent{
      .body = Reject{.reason = RejectReason::kWrongVersion, .version = 9, .sentence = Sentence("9 only")}};
  Frame received;
  ASSERT_EQ(decode(encoded(sent), received).state, State::kComplete);
  expect_same(sent, received);
}

}  // namespace
}  // namespace pvrdma::transport::wire
