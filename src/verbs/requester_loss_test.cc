// The send side of an RC QP when messages are lost, late or duplicated, or when the peer has no receive for
// them.
#include "verbs/connected_qp_fixture.h"
#include "verbs/requester.h"

namespace pvrdma::verbs {
namespace {

using abi::CompletionStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RequesterLossTest : public ConnectedQp {
 protected:
  void post_writes(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i <= last; ++i) a.post(qp, write(i));
    a.ring(qp);
  }
  std::uint64_t timeouts() const { return a.engine.counters().timeouts; }
};

TEST_F(RequesterLossTest, NothingIsSentAgainBeforeTheTimeout) {
  a.send(qp, write(1));
  sent();
  EXPECT_EQ(a.engine.next_deadline(), a.now + kAckTimeout);
  advance(kAckTimeout - Duration(1));
  EXPECT_THAT(sent(), IsEmpty());
  advance(Duration(1));
  EXPECT_THAT(sent_numbers(), ElementsAre(100));
  EXPECT_EQ(timeouts(), 1u);
  EXPECT_EQ(a.engine.counters().retransmits, 1u);
}

TEST_F(RequesterLossTest, ATimeoutSendsEverythingUnansweredAgainInOrder) {
  post_writes(1, 3);
  sent();
  ack(100);
  advance(kAckTimeout);
  EXPECT_THAT(sent_numbers(), ElementsAre(101, 102));
  ack(102);
  EXPECT_THAT(sends_done(), SizeIs(3));
  advance(std::chrono::seconds(5));
  EXPECT_EQ(timeouts(), 1u);
}

TEST_F(RequesterLossTest, AnAckRestartsTheTimeOfTheRest) {
  post_writes(1, 2);
  advance(kAckTimeout - std::chrono::milliseconds(1));
  ack(100);
  sent();
  advance(kAckTimeout - std::chrono::milliseconds(1));
  EXPECT_THAT(sent(), IsEmpty());
  advance(std::chrono::milliseconds(1));
  EXPECT_THAT(sent_numbers(), ElementsAre(101));
}

TEST_F(RequesterLossTest, AfterRetryCntTheOldestFailsAndTheRestIsFlushedInOrder) {
  SendWr quiet = write(2);
  quiet.flags = 0;
  a.post(qp, write(1));
  a.post(qp, quiet);
  a.post(qp, read(3));
  a.ring(qp);
  for (int i = 0; i < 3; ++i) {
    advance(kAckTimeout);
    EXPECT_THAT(sends_done(), IsEmpty()) << i;
  }
  a.post(qp, write(4));  // is flushed although it was never fetched
  advance(kAckTimeout);
  EXPECT_THAT(
      sends_done(),
      ElementsAre(Completion{1, CompletionStatus::kRetryExceeded}, Completion{2, CompletionStatus::kFlushed},
                  Completion{3, CompletionStatus::kFlushed}, Completion{4, CompletionStatus::kFlushed}));
  EXPECT_EQ(a.state(qp), abi::QpState::kErr);
  EXPECT_EQ(a.engine.counters().retry_exceeded, 1u);
  EXPECT_EQ(a.engine.counters().local_errors, 0u);
  sent();
  advance(std::chrono::seconds(10));
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
}

TEST_F(RequesterLossTest, ProgressGivesAllRetriesBack) {
  for (std::uint64_t i = 0; i < 4; ++i) {
    post_writes(i, i);
    for (int lost = 0; lost < 3; ++lost) advance(kAckTimeout);
    ack(kSqPsn + static_cast<std::uint32_t>(i));
  }
  EXPECT_THAT(sends_done(), SizeIs(4));
}

TEST_F(RequesterLossTest, SilenceOfAPeerOnItsWayCostsNoRetry) {
  a.wire.spares = true;
  for (std::uint64_t i = 0; i < 2; ++i) {
    post_writes(i, i);
    for (Duration silent{}; silent < Requester::kSparedAtMost; silent += kAckTimeout) advance(kAckTimeout);
    ack(kSqPsn + static_cast<std::uint32_t>(i));
  }
  EXPECT_THAT(sends_done(), SizeIs(2));
}

TEST_F(RequesterLossTest, SilenceWithoutEndIsNoneOfAPeerOnItsWay) {
  a.wire.spares = true;
  post_writes(1, 1);
  advance(kAckTimeout);
  for (Duration silent{}; silent < Requester::kSparedAtMost; silent += kAckTimeout) advance(kAckTimeout);
  EXPECT_THAT(sends_done(), IsEmpty());
  for (int lost = 0; lost < 3; ++lost) advance(kAckTimeout);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kRetryExceeded}));
}

TEST_F(RequesterLossTest, AnswersWithoutNewsGiveNoRetriesBack) {
  a.post(qp, read(1));
  a.post(qp, write(2));
  a.ring(qp);
  ack(101);
  for (int lost = 0; lost < 4; ++lost) {
    EXPECT_THAT(sends_done(), IsEmpty());
    ack(101);  // a duplicate; the answer to the read never comes
    advance(kAckTimeout);
  }
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kRetryExceeded},
                                        Completion{2, CompletionStatus::kFlushed}));
}

TEST_F(RequesterLossTest, TimeoutZeroWaitsForEver) {
  a.reset(qp);
  a.connect(qp, kPeer, {.timeout = 0});
  a.send(qp, write(1));
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
}

TEST_F(RequesterLossTest, AnAnswerThatComesDuringTheRepetitionCounts) {
  post_writes(1, 2);
  a.now = a.now + kAckTimeout;
  a.engine.on_time(a.now);  // the QP has to send again, but has not had a turn
  ack(101);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}));
  sent();
  post_writes(3, 3);
  EXPECT_THAT(sent_numbers(), ElementsAre(102));
}

TEST_F(RequesterLossTest, ALateAnswerToARepeatedReadCounts) {
  a.post(qp, read(1, 2 * kPieceBytesMax));
  a.post(qp, fetch_add(2));
  a.ring(qp);
  a.now = a.now + kAckTimeout;
  a.engine.on_time(a.now);
  const auto data = TestAdapter::pattern_bytes(2 * kPieceBytesMax, 4);
  sent();
  read_data(100, 0, {data.begin(), data.begin() + kPieceBytesMax});
  read_data(100, kPieceBytesMax, {data.begin() + kPieceBytesMax, data.end()});
  atomic_result(101, RequestOp::kFetchAdd, 3);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}));
  EXPECT_EQ(a.bytes(mr, 8, 2 * kPieceBytesMax - 8), std::vector(data.begin() + 8, data.end()));
}

TEST_F(RequesterLossTest, ALostPieceOfReadDataIsAskedForAgainAndNothingBeforeIt) {
  const auto data = TestAdapter::pattern_bytes(3 * kPieceBytesMax, 4);
  const auto piece = [&](std::uint32_t i) {
    return std::vector(data.begin() + i * kPieceBytesMax, data.begin() + (i + 1) * kPieceBytesMax);
  };
  a.send(qp, read(1, 3 * kPieceBytesMax));
  a.settle();
  sent();
  read_data(100, 0, piece(0));
  read_data(100, 2 * kPieceBytesMax, piece(2));  // the middle one is lost
  read_data(100, 0,
            TestAdapter::pattern_bytes(kPieceBytesMax, 99));  // a duplicate of the first, with other bytes
  advance(kAckTimeout);
  const auto again = sent();
  ASSERT_THAT(again, SizeIs(2));
  EXPECT_EQ(again[0].message.offset, kPieceBytesMax);
  read_data(100, kPieceBytesMax, piece(1));
  read_data(100, 2 * kPieceBytesMax, piece(2));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.bytes(mr, 0, data.size()), data);
}

TEST_F(RequesterLossTest, ReadsCountOnceHoweverOftenTheyAreAsked) {
  for (std::uint64_t i = 1; i <= 4; ++i) a.post(qp, fetch_add(i));
  a.ring(qp);
  advance(kAckTimeout);
  advance(kAckTimeout);
  sent();
  for (std::uint32_t number = 100; number < 104; ++number)
    atomic_result(number, RequestOp::kFetchAdd, number);
  EXPECT_THAT(sends_done(), SizeIs(4));
  atomic_result(103, RequestOp::kFetchAdd, 1);
  for (std::uint64_t i = 1; i <= 5; ++i) a.post(qp, fetch_add(i));
  a.ring(qp);
  EXPECT_THAT(sent_numbers(), ElementsAre(104, 105, 106, 107));
}

// The peer answers a message when it has executed the last piece. So no time counts until that piece is sent.
TEST_F(RequesterLossTest, TheTimeOfALongMessageStartsWithItsLastSegment) {
  constexpr std::size_t kSegments = kMrBytes / kPieceBytesMax;  // more pieces than one turn sends
  a.send(qp, write(1, kMrBytes));
  const std::size_t in_doorbell = sent().size();
  EXPECT_LT(in_doorbell, kSegments);
  a.now = a.now + (kAckTimeout - Duration(1));
  a.settle();
  EXPECT_THAT(sent(), SizeIs(kSegments - in_doorbell));
  advance(Duration(1));
  EXPECT_EQ(timeouts(), 0u);
  advance(kAckTimeout);
  EXPECT_EQ(timeouts(), 1u);
}

TEST_F(RequesterLossTest, PostingMoreDoesNotPutATimeoutOff) {
  a.send(qp, read(1, kMrBytes));  // too long to be asked for at once
  for (int i = 0; i < 10; ++i) {
    a.now = a.now + (kAckTimeout / 10 + Duration(1));
    a.send(qp, write(2));
  }
  if (a.engine.next_deadline() <= a.now) a.engine.on_time(a.now);
  EXPECT_EQ(timeouts(), 1u);
}

TEST_F(RequesterLossTest, ASequenceNakSendsAgainFromWhereThePeerStands) {
  a.post(qp, write(1));
  a.post(qp, write(2, 2 * kPieceBytesMax));
  a.post(qp, write(3));
  a.ring(qp);
  sent();
  nak(101, Syndrome::kNakSequence, kPieceBytesMax);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  const auto again = sent();
  ASSERT_THAT(again, SizeIs(2));
  EXPECT_EQ(again[0].message.number, MessageNumber(101));
  EXPECT_EQ(again[0].message.offset, kPieceBytesMax);
  EXPECT_EQ(again[1].message.number, MessageNumber(102));
}

TEST_F(RequesterLossTest, SequenceNaksWithoutProgressUseUpTheRetries) {
  post_writes(1, 2);
  for (int i = 0; i < 3; ++i) nak(100, Syndrome::kNakSequence);
  EXPECT_THAT(sends_done(), IsEmpty());
  nak(100, Syndrome::kNakSequence);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kRetryExceeded},
                                        Completion{2, CompletionStatus::kFlushed}));
}

TEST_F(RequesterLossTest, ALossyPathIsNoDeadPath) {
  const std::uint32_t pieces = kMrBytes / kPieceBytesMax;
  a.send(qp, write(1, kMrBytes));
  a.settle();
  for (std::uint32_t i = 1; i < pieces; ++i) nak(100, Syndrome::kNakSequence, i * kPieceBytesMax);
  ack(100);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
}

TEST_F(RequesterLossTest, ASequenceNakThatUsesUpTheRetriesDoesNotFailWhatItAcknowledges) {
  a.reset(qp);
  a.connect(qp, kPeer, {.retry_cnt = 0});
  post_writes(1, 3);
  nak(102, Syndrome::kNakSequence);
  EXPECT_THAT(sends_done(),
              ElementsAre(Completion{1}, Completion{2}, Completion{3, CompletionStatus::kRetryExceeded}));
}

TEST_F(RequesterLossTest, ANakForLaterWorkDoesNotSkipWhatIsToBeSentAgain) {
  a.post(qp, read(1));
  a.post(qp, write(2));
  a.post(qp, send_wr(3));
  a.ring(qp);
  sent();
  a.now = a.now + kAckTimeout;
  a.engine.on_time(a.now);  // the QP has to send everything again
  SpanPayload nothing;
  a.engine.on_response({.from = kPeer,
                        .to = a.endpoint(qp),
                        .number = MessageNumber(102),
                        .syndrome = Syndrome::kRnrNak,
                        .rnr_timer = 12},
                       nothing, a.now);
  advance(kRnrDelay);
  EXPECT_THAT(sent_numbers(), ElementsAre(100, 102));  // the RNR NAK for 102 says that 101 was executed
}

// --- Receiver not ready ---

TEST_F(RequesterLossTest, ARnrNakPausesAndRepeatsFromThere) {
  for (std::uint64_t i = 1; i <= 3; ++i) a.post(qp, send_wr(i));
  a.ring(qp);
  sent();
  nak(101, Syndrome::kRnrNak);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.engine.next_deadline(), a.now + kRnrDelay);
  a.send(qp, send_wr(4));
  advance(kRnrDelay - Duration(1));
  EXPECT_THAT(sent(), IsEmpty());
  advance(Duration(1));
  EXPECT_THAT(sent_numbers(), ElementsAre(101, 102, 103));
  ack(103);
  EXPECT_THAT(sends_done(), SizeIs(3));
  EXPECT_EQ(timeouts(), 0u);
}

TEST_F(RequesterLossTest, APauseEndsWhenThePeerHasAReceive) {
  for (std::uint64_t i = 1; i <= 2; ++i) a.post(qp, send_wr(i));
  a.ring(qp);
  sent();
  for (int round = 0; round < 10; ++round) {  // more often than rnr_retry allows: no pause was in vain
    nak(100, Syndrome::kRnrNak);
    EXPECT_THAT(sent(), IsEmpty());
    nak(100, Syndrome::kProgress);
    EXPECT_THAT(sent_numbers(), ElementsAre(100, 101)) << round;
  }
  ack(101);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}));
  EXPECT_EQ(timeouts(), 0u);
}

TEST_F(RequesterLossTest, ProgressOfAnotherMessageEndsNoPause) {
  for (std::uint64_t i = 1; i <= 2; ++i) a.post(qp, send_wr(i));
  a.ring(qp);
  sent();
  nak(101, Syndrome::kRnrNak);
  nak(100, Syndrome::kProgress);
  EXPECT_THAT(sent(), IsEmpty());
  advance(kRnrDelay);
  EXPECT_THAT(sent_numbers(), ElementsAre(101));
}

class RnrRetry : public ConnectedQp, public ::testing::WithParamInterface<std::uint8_t> {
  ConnectOptions connection() const override { return {.rnr_retry = GetParam()}; }
};

TEST_P(RnrRetry, IsTheNumberOfRepetitions) {
  const std::uint8_t rnr_retry = GetParam();
  a.post(qp, send_wr(1));
  a.send(qp, send_wr(2));
  for (int i = 0; i < rnr_retry; ++i) {
    nak(100, Syndrome::kRnrNak);
    EXPECT_THAT(sends_done(), IsEmpty());
    advance(kRnrDelay);
  }
  nak(100, Syndrome::kRnrNak);
  if (rnr_retry == 7) {  // 7 means without end
    for (int i = 0; i < 100; ++i) {
      advance(kRnrDelay);
      nak(100, Syndrome::kRnrNak);
    }
    EXPECT_THAT(sends_done(), IsEmpty());
    return;
  }
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kRnrRetryExceeded},
                                        Completion{2, CompletionStatus::kFlushed}));
}

INSTANTIATE_TEST_SUITE_P(Requester, RnrRetry, ::testing::Values(0, 1, 6, 7));

TEST_F(RequesterLossTest, ADoubledRnrNakCountsOnce) {
  a.send(qp, send_wr(1));
  for (int i = 0; i < 10; ++i) nak(100, Syndrome::kRnrNak);
  EXPECT_EQ(a.engine.counters().rnr_naks_received, 1u);
  EXPECT_THAT(sends_done(), IsEmpty());
}

TEST_F(RequesterLossTest, RnrNaksShowThatThePeerIsAlive) {
  a.reset(qp);
  a.connect(qp, kPeer, {.retry_cnt = 1, .rnr_retry = 7});
  a.send(qp, send_wr(1));
  for (int i = 0; i < 5; ++i) {
    nak(100, Syndrome::kRnrNak);
    advance(kRnrDelay);
    advance(kAckTimeout);  // one loss between two RNR NAKs
  }
  EXPECT_EQ(timeouts(), 5u);
  EXPECT_THAT(sends_done(), IsEmpty());
}

TEST_F(RequesterLossTest, ReadDataArrivesDuringAPause) {
  a.post(qp, read(1));
  a.post(qp, send_wr(2));
  a.ring(qp);
  nak(101, Syndrome::kRnrNak);
  read_data(100, 0, TestAdapter::pattern_bytes(64, 1));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  sent();
  advance(kRnrDelay);
  EXPECT_THAT(sent_numbers(), ElementsAre(101));
}

TEST_F(RequesterLossTest, WhatWasAckedBeforeARefusalIsNotFailedByIt) {
  a.post(qp, write(1));
  a.post(qp, fetch_add(2));
  a.post(qp, write(3));
  a.ring(qp);
  nak(102, Syndrome::kNakRemoteAccess);  // the answer to the atomic is lost, and the peer's QP is in ERR now
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  for (int i = 0; i < 4; ++i) advance(kAckTimeout);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{2, CompletionStatus::kRetryExceeded},
                                        Completion{3, CompletionStatus::kFlushed}));
}

TEST_F(RequesterLossTest, PagesThatVanishBeforeARepetitionEndTheQp) {
  a.send(qp, write(1));
  a.memory.space().unmap_all();
  advance(kAckTimeout);
  // The CQ's pages are gone as well, so no CQE can tell the guest.
  EXPECT_EQ(a.state(qp), abi::QpState::kErr);
  EXPECT_THAT(a.events.async,
              ::testing::Contains(RecordingEvents::Event{abi::EventType::kCqErr, send_cq.handle.value}));
}

}  // namespace
}  // namespace pvrdma::verbs
