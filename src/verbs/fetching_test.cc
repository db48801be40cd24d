// Lent answers to reads: the requester's side while a path fetches the lent bytes, and the responder's side
// until they are returned.
#include "verbs/connected_qp_fixture.h"
#include "verbs/queue_pair.h"

namespace pvrdma::verbs {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint32_t kPiece = 100;

// An answer whose bytes the path fetches itself.
class FetchedAnswer final : public Payload {
 public:
  std::uint64_t bytes() const override { return kPiece; }
  bool copy_to(const guestmem::SpanList&) override { return false; }
  Placed place(const guestmem::SpanList& target) override {
    if (is_there_) return Placed::kDone;
    target_ = target;
    is_asked = true;
    return is_lost ? Placed::kLost : Placed::kLater;
  }
  bool is_back() const override { return is_there_; }
  void land(std::uint8_t seed) {
    auto data = TestAdapter::pattern_bytes(kPiece, seed);
    guestmem::copy(target_, spans(data), kPiece);
    is_there_ = true;
  }

  bool is_asked = false;
  bool is_lost = false;

 private:
  bool is_there_ = false;
  guestmem::SpanList target_;
};

class FetchingTest : public ConnectedQp {
 protected:
  void begin(std::uint32_t bytes) {
    a.send(qp, read(7, bytes));
    EXPECT_THAT(sent(), SizeIs(1));
  }
  void hand_over(FetchedAnswer& payload, std::uint32_t offset = 0) {
    a.engine.on_response({.from = kPeer,
                          .to = a.endpoint(qp),
                          .number = MessageNumber(kSqPsn),
                          .syndrome = Syndrome::kAck,
                          .op = RequestOp::kRead,
                          .offset = offset,
                          .bytes = kPiece},
                         payload, a.now);
    a.settle();
  }
  void copied(std::uint32_t offset, std::uint8_t seed) {
    read_data(kSqPsn, offset, TestAdapter::pattern_bytes(kPiece, seed));
  }
  bool holds(std::uint32_t offset, std::uint8_t seed) {
    return a.bytes(mr, offset, kPiece) == TestAdapter::pattern_bytes(kPiece, seed);
  }
  void expect_done() {
    const auto done = sends_done();
    ASSERT_THAT(done, SizeIs(1));
    EXPECT_EQ(done[0].wr_id, 7U);
    EXPECT_EQ(done[0].status, abi::CompletionStatus::kSuccess);
    EXPECT_EQ(a.engine.counters().retransmits, 0U);
  }
  void expect_no_loan() {
    const std::size_t stopped = a.wire.stopped.size();
    ASSERT_TRUE(a.engine.destroy_mr(mr.handle));
    EXPECT_EQ(a.wire.stopped_all, 0);
    EXPECT_THAT(a.wire.stopped, SizeIs(stopped));
  }

  FetchedAnswer first_;
  FetchedAnswer second_;
};

TEST_F(FetchingTest, AReadIsDoneWhenItsAnswerIsThere) {
  begin(kPiece);
  hand_over(first_);
  EXPECT_TRUE(first_.is_asked);
  EXPECT_THAT(sends_done(), IsEmpty());
  first_.land(3);
  hand_over(first_);
  expect_done();
  EXPECT_TRUE(holds(0, 3));
  expect_no_loan();
}

TEST_F(FetchingTest, PiecesAreFetchedTogether) {
  begin(2 * kPiece);
  hand_over(first_);
  hand_over(second_, kPiece);
  EXPECT_TRUE(second_.is_asked);
  first_.land(1);
  hand_over(first_);
  EXPECT_THAT(sends_done(), IsEmpty());
  second_.land(2);
  hand_over(second_, kPiece);
  expect_done();
  EXPECT_TRUE(holds(0, 1) && holds(kPiece, 2));
  expect_no_loan();
}

TEST_F(FetchingTest, APieceThatIsHereCountsWhenThatBeforeItIs) {
  begin(2 * kPiece);
  hand_over(first_);
  copied(kPiece, 2);
  EXPECT_THAT(sends_done(), IsEmpty());
  first_.land(1);
  hand_over(first_);
  expect_done();
  EXPECT_TRUE(holds(0, 1) && holds(kPiece, 2));
}

TEST_F(FetchingTest, WhatCannotBeFetchedIsAsIfItHadNeverCome) {
  begin(kPiece);
  first_.is_lost = true;
  hand_over(first_);
  copied(0, 4);
  expect_done();
  EXPECT_TRUE(holds(0, 4));
  EXPECT_THAT(a.wire.stopped, IsEmpty());
}

// Without the stop, bytes of the first answer could overwrite those of the second, whose completion the guest
// has seen.
TEST_F(FetchingTest, TheSameAnswerOnceMoreStopsTheFirst) {
  begin(2 * kPiece);
  hand_over(first_);
  copied(0, 5);
  ASSERT_THAT(a.wire.stopped, SizeIs(1));
  EXPECT_EQ(a.wire.stopped[0].remote, kPeer);
  EXPECT_THAT(sends_done(), IsEmpty());
  copied(kPiece, 6);
  EXPECT_THAT(a.wire.stopped, SizeIs(1)) << "once";
  expect_done();
  EXPECT_TRUE(holds(0, 5) && holds(kPiece, 6));
}

TEST_F(FetchingTest, AnotherPathAsksFromTheFirstByteThatIsNotHere) {
  begin(3 * kPiece);
  hand_over(first_);
  hand_over(second_, kPiece);
  first_.land(1);
  hand_over(first_);
  a.engine.on_all_paths_restored(a.now);
  EXPECT_THAT(a.wire.stopped, SizeIs(1)) << "before anything is asked for once more";
  a.settle();
  const auto again = sent();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].message.offset, kPiece);
  EXPECT_EQ(again[0].message.bytes, 2 * kPiece);
  copied(kPiece, 2);
  copied(2 * kPiece, 3);
  ASSERT_THAT(sends_done(), SizeIs(1));
  EXPECT_TRUE(holds(0, 1) && holds(kPiece, 2) && holds(2 * kPiece, 3));
}

TEST_F(FetchingTest, OnlyItsOwnRegionsEndStopsIt) {
  begin(kPiece);
  hand_over(first_);
  const TestMr other = a.make_mr(4096);
  ASSERT_TRUE(a.engine.destroy_mr(other.handle));
  EXPECT_EQ(a.wire.stopped_all, 0) << "another's";
  ASSERT_TRUE(a.engine.destroy_mr(mr.handle));
  EXPECT_EQ(a.wire.stopped_all, 1);
}

TEST_F(FetchingTest, ARefusalOfALaterPieceStopsIt) {
  begin(2 * kPiece);
  hand_over(first_);
  nak(kSqPsn, Syndrome::kNakRemoteAccess);
  EXPECT_THAT(a.wire.stopped, SizeIs(1));
  const auto done = sends_done();
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].status, abi::CompletionStatus::kRemoteAccess);
}

// --- The responder ---

// Lends every answer that is long enough.
class LendingPath final : public Path {
 public:
  LendingPath(std::vector<std::uint32_t>& lent, int& copied)
      : Path(false, kPiece), lent_(lent), copied_(copied) {}
  std::uint32_t room(std::uint32_t wanted, Instant) override { return wanted; }
  void send_request(const Request&, const guestmem::SpanList&, Instant) override {}
  void send_response(const Response&, const guestmem::SpanList&, Instant) override { ++copied_; }
  bool lend_response(const Response& response, std::uint32_t rkey, const guestmem::SpanList& payload,
                     Instant) override {
    EXPECT_EQ(payload.bytes(), response.bytes);
    lent_.push_back(rkey);
    return true;
  }

 private:
  std::vector<std::uint32_t>& lent_;
  int& copied_;
};

class LentAnswerTest : public ConnectedQp {
 protected:
  LentAnswerTest() {
    a.wire.open_other = [this](const Connection&, PathSlot& slot) {
      slot.open<LendingPath>(lent_keys_, copied_);
    };
    ++a.wire.generation;
  }
  void asks(std::uint32_t bytes) { ask(request(RequestOp::kRead, next_++, bytes)); }

  std::uint32_t next_ = kRqPsn;
  std::vector<std::uint32_t> lent_keys_;
  int copied_ = 0;
};

TEST_F(LentAnswerTest, ARegionsEndStopsWhatWasNotReturned) {
  asks(kPiece - 1);
  EXPECT_EQ(copied_, 1) << "it is too short";
  asks(kPiece);
  EXPECT_THAT(lent_keys_, SizeIs(1));
  EXPECT_THAT(lent_keys_, Each(mr.key));
  const TestMr other = a.make_mr(4096);
  ASSERT_TRUE(a.engine.destroy_mr(other.handle));
  EXPECT_EQ(a.wire.stopped_all, 0);
  ASSERT_TRUE(a.engine.destroy_mr(mr.handle));
  EXPECT_EQ(a.wire.stopped_all, 1);
}

TEST_F(LentAnswerTest, WhatWasReturnedStopsNothing) {
  asks(kPiece);
  asks(kPiece);
  a.engine.on_returned(qp.qpn, mr.key);
  a.engine.on_returned(qp.qpn, mr.key);
  a.engine.on_returned(qp.qpn, mr.key);  // no such loan exists
  ASSERT_TRUE(a.engine.destroy_mr(mr.handle));
  EXPECT_EQ(a.wire.stopped_all, 0);
}

TEST_F(LentAnswerTest, TheQpsEndStopsIt) {
  asks(kPiece);
  a.reset(qp);
  EXPECT_THAT(a.wire.stopped, SizeIs(1));
}

TEST_F(LentAnswerTest, ThereIsAnEndToIt) {
  for (std::uint32_t i = 0; i < QpLoans::kAnswersMax + 2; ++i) asks(kPiece);
  EXPECT_THAT(lent_keys_, SizeIs(QpLoans::kAnswersMax));
  EXPECT_EQ(copied_, 2);
  a.engine.on_returned(qp.qpn, mr.key);
  asks(kPiece);
  EXPECT_THAT(lent_keys_, SizeIs(QpLoans::kAnswersMax + 1));
}

}  // namespace
}  // namespace pvrdma::verbs
