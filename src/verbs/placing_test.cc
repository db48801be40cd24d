// The receive side of an RC QP while a path places payload: how long the loan lasts, and what ends it.
#include "verbs/connected_qp_fixture.h"
#include "verbs/queue_pair.h"

namespace pvrdma::verbs {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint32_t kBytes = 100;

// Bytes that a path fetches itself.
class FetchedPayload final : public Payload {
 public:
  explicit FetchedPayload(bool ahead = false) : ahead_(ahead) {}
  std::uint64_t bytes() const override { return kBytes; }
  bool copy_to(const guestmem::SpanList&) override { return false; }
  Placed place(const guestmem::SpanList& target) override {
    if (!outcome) target_ = target;
    is_asked = true;
    return outcome.value_or(Placed::kLater);
  }
  bool is_back() const override { return outcome.has_value(); }
  bool is_ahead() const override { return ahead_ && !outcome; }
  void land(std::uint8_t seed) {
    auto data = TestAdapter::pattern_bytes(kBytes, seed);
    guestmem::copy(target_, spans(data), kBytes);
    outcome = Placed::kDone;
  }

  bool is_asked = false;
  std::optional<Placed> outcome;

 private:
  const bool ahead_;
  guestmem::SpanList target_;
};

class PlacingTest : public ConnectedQp {
 protected:
  void hand_over() { hand_over(write_, payload_); }
  void hand_over(const Request& request, FetchedPayload& payload) {
    a.engine.on_request(request, payload, a.now);
    a.settle();
  }
  bool is_placed_ahead(const Request& request) {
    FetchedPayload payload(true);
    hand_over(request, payload);
    EXPECT_THAT(answers(), IsEmpty());
    return payload.is_asked;
  }
  bool holds(std::uint8_t seed) { return a.bytes(mr, 0, kBytes) == TestAdapter::pattern_bytes(kBytes, seed); }

  Request write_ = request(RequestOp::kWrite, kRqPsn, kBytes);
  FetchedPayload payload_;
};

TEST_F(PlacingTest, AMessageCountsWhenItsPayloadIsThere) {
  hand_over();
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_EQ(a.engine.counters().rx_messages, 0U);
  payload_.land(3);
  hand_over();
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_TRUE(holds(3));
  ASSERT_TRUE(a.engine.destroy_mr(mr.handle));
  EXPECT_THAT(a.wire.stopped, IsEmpty());
  EXPECT_EQ(a.wire.stopped_all, 0) << "the loan was over";
}

TEST_F(PlacingTest, WhatDoesNotComeIsAsIfItHadNeverBeenSaid) {
  hand_over();
  payload_.outcome = Placed::kLost;
  hand_over();
  EXPECT_THAT(answers(), IsEmpty());
  ask_filled(write_, 4);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_TRUE(holds(4));
  EXPECT_THAT(a.wire.stopped, IsEmpty());
}

// Without the stop, bytes from the first path could overwrite those of the second, whose completion the guest
// has seen.
TEST_F(PlacingTest, TheSameMessageByAnotherPathStopsTheFirst) {
  hand_over();
  ask_filled(write_, 5);
  ASSERT_THAT(a.wire.stopped, SizeIs(1));
  EXPECT_EQ(a.wire.stopped[0].remote, kPeer);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_TRUE(holds(5));
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, kBytes), 6);
  EXPECT_THAT(a.wire.stopped, SizeIs(1)) << "once";
}

TEST_F(PlacingTest, OnlyItsOwnRegionsEndStopsIt) {
  const TestMr other = a.make_mr(4096);
  hand_over();
  ASSERT_TRUE(a.engine.destroy_mr(other.handle));
  EXPECT_EQ(a.wire.stopped_all, 0);
  ASSERT_TRUE(a.engine.destroy_mr(mr.handle));
  EXPECT_EQ(a.wire.stopped_all, 1);
}

TEST_F(PlacingTest, WritesBehindItArePlacedWithItAndCountInOrder) {
  hand_over();
  const Request second = request(RequestOp::kWrite, kRqPsn + 1, kBytes);
  FetchedPayload ahead(true);
  hand_over(second, ahead);
  ASSERT_TRUE(ahead.is_asked);
  payload_.land(1);
  hand_over();
  EXPECT_EQ(answered().number, write_.number);
  ahead.land(2);
  hand_over(second, ahead);
  EXPECT_EQ(answered().number, second.number);
  EXPECT_TRUE(holds(2));
  ASSERT_TRUE(a.engine.destroy_mr(mr.handle));
  EXPECT_EQ(a.wire.stopped_all, 0) << "both loans were over";
}

TEST_F(PlacingTest, AsMayPiecesOfOneMessage) {
  Request first = write_;
  first.message_bytes = 3 * kBytes;
  Request second = first;
  second.offset = kBytes;
  Request third = first;
  third.offset = 2 * kBytes;
  hand_over(first, payload_);
  EXPECT_FALSE(is_placed_ahead(third));
  EXPECT_TRUE(is_placed_ahead(second));
  EXPECT_TRUE(is_placed_ahead(third));
}

TEST_F(PlacingTest, NothingElseIsPlacedAhead) {
  const auto numbered = [&](RequestOp op, std::uint32_t ahead) {
    return request(op, kRqPsn + ahead, kBytes);
  };
  EXPECT_FALSE(is_placed_ahead(write_)) << "behind nothing";
  hand_over();
  EXPECT_FALSE(is_placed_ahead(numbered(RequestOp::kWrite, 2))) << "behind a gap";
  EXPECT_FALSE(is_placed_ahead(numbered(RequestOp::kSend, 1))) << "into a receive";
  Request elsewhere = numbered(RequestOp::kWrite, 1);
  elsewhere.rkey += 1;
  EXPECT_FALSE(is_placed_ahead(elsewhere)) << "it may not, and is told so when it is due";
  Request completes = numbered(RequestOp::kWrite, 1);
  completes.extra = Extra::kImmediate;
  EXPECT_TRUE(is_placed_ahead(completes));
  EXPECT_FALSE(is_placed_ahead(numbered(RequestOp::kWrite, 2))) << "behind one that may wait for a receive";
}

TEST_F(PlacingTest, ThereIsAnEndToIt) {
  hand_over();
  for (std::uint32_t i = 1; i < QpLoans::kPlacingsMax; ++i)
    EXPECT_TRUE(is_placed_ahead(request(RequestOp::kWrite, kRqPsn + i, kBytes)));
  EXPECT_FALSE(is_placed_ahead(request(RequestOp::kWrite, kRqPsn + QpLoans::kPlacingsMax, kBytes)));
  ask_filled(write_, 7);
  EXPECT_THAT(a.wire.stopped, SizeIs(1)) << "all of them";
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_TRUE(holds(7));
}

}  // namespace
}  // namespace pvrdma::verbs
