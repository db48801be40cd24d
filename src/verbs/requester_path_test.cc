// The send side of an RC QP on a path that has no room or breaks, and the bound of the bytes in flight.
#include <algorithm>

#include "verbs/connected_qp_fixture.h"
#include "verbs/requester.h"

namespace pvrdma::verbs {
namespace {

using abi::CompletionStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint32_t kPiece = kPieceBytesMax;
constexpr std::uint32_t kWindow = Requester::kBytesInFlightMax;
constexpr std::uint32_t kLow = Requester::kBytesInFlightLow;

class RequesterPathTest : public ConnectedQp {
 protected:
  static constexpr int kAnyRoom = -1;

  void path_takes(int requests) {
    a.wire.room = requests;
    a.engine.on_path_ready();
    a.settle();
  }
  void path_breaks() {
    a.engine.on_path_restored([](const Endpoint&, const Endpoint& peer) { return peer.gid == kPeer.gid; },
                              a.now);
    a.settle();
  }
  SendWr long_write(std::uint64_t wr_id, std::uint32_t pieces_of_2_mib) const {
    SendWr wr{.wr_id = wr_id, .opcode = abi::Opcode::kRdmaWrite};
    for (std::uint32_t i = 0; i < pieces_of_2_mib; ++i) wr.sges.push_back(mr.sge(0, kMrBytes));
    return wr;
  }
  std::vector<std::uint32_t> sent_offsets() {
    std::vector<std::uint32_t> out;
    for (const auto& one : sent()) out.push_back(one.message.offset);
    return out;
  }
  std::uint64_t sent_bytes() {
    std::uint64_t out = 0;
    for (const auto& one : sent()) out += one.message.bytes;
    return out;
  }
  void progress(std::uint32_t number, std::uint32_t offset) { nak(number, Syndrome::kProgress, offset); }
  const Counters& counters() const { return a.engine.counters(); }
};

// --- A path without room ---

TEST_F(RequesterPathTest, WhatWasRefusedGoesOutWhenThePathIsReady) {
  a.wire.room = 0;
  a.send(qp, write(1));
  EXPECT_EQ(a.wire.refused, 1u);
  EXPECT_FALSE(a.engine.run(a.now));
  EXPECT_EQ(a.engine.next_deadline(), a.now + kAckTimeout);  // it waits and is not ready
  a.wire.room = kAnyRoom;
  a.engine.on_path_ready();
  EXPECT_LE(a.engine.next_deadline(), a.now);
  a.settle();
  EXPECT_THAT(sent_numbers(), ElementsAre(100));
  ack(100);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(counters().retransmits, 0u);
  path_takes(kAnyRoom);
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(RequesterPathTest, AMessageGoesOnWhereItWasRefused) {
  a.wire.room = 2;
  a.send(qp, write(1, 4 * kPiece));
  a.settle();
  EXPECT_THAT(sent_offsets(), ElementsAre(0, kPiece));
  path_takes(1);
  path_takes(kAnyRoom);
  EXPECT_THAT(sent_offsets(), ElementsAre(2 * kPiece, 3 * kPiece));
  ack(100);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(counters().retransmits, 0u);
}

TEST_F(RequesterPathTest, RefusalsKeepTheOrderAndTheNumbers) {
  a.wire.room = 2;
  for (std::uint64_t i = 1; i <= 5; ++i) a.post(qp, write(i));
  a.ring(qp);
  EXPECT_THAT(sent_numbers(), ElementsAre(100, 101));
  ack(101);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}));
  path_takes(kAnyRoom);
  EXPECT_THAT(sent_numbers(), ElementsAre(102, 103, 104));
}

TEST_F(RequesterPathTest, APathThatNeverComesBackUsesUpTheRetries) {
  a.wire.room = 0;
  a.post(qp, write(1));
  a.send(qp, write(2));
  for (int i = 0; i < 3; ++i) {
    advance(kAckTimeout);
    EXPECT_THAT(sends_done(), IsEmpty()) << i;
  }
  advance(kAckTimeout - Duration(1));
  EXPECT_THAT(sends_done(), IsEmpty());
  advance(Duration(1));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kRetryExceeded},
                                        Completion{2, CompletionStatus::kFlushed}));
  EXPECT_EQ(counters().retransmits, 0u);
  EXPECT_THAT(a.events.failures,
              ElementsAre("nothing could be sent for as long as timeout and retry_cnt allow"));
  path_takes(kAnyRoom);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
}

// Parts of a path of an old generation may be gone, as those of a fault that was removed are.
TEST_F(RequesterPathTest, APathOfAnOldGenerationIsNotAskedForItsTrouble) {
  class Gone final : public Path {
   public:
    bool leads_somewhere() const override {
      ADD_FAILURE();
      return true;
    }
    std::string trouble() const override {
      ADD_FAILURE();
      return {};
    }
    std::uint32_t room(std::uint32_t wanted, Instant) override { return wanted; }
    void send_request(const Request&, const guestmem::SpanList&, Instant) override {}
    void send_response(const Response&, const guestmem::SpanList&, Instant) override {}
  };
  a.wire.open_other = [](const Connection&, PathSlot& slot) { slot.open<Gone>(); };
  a.reset(qp);
  a.connect(qp, kPeer, connection());
  a.send(qp, write(1));
  for (int lost = 0; lost < 3; ++lost) advance(kAckTimeout);
  a.wire.open_other = nullptr;
  a.wire.trouble = "the cable is cut";
  ++a.wire.generation;
  EXPECT_EQ(a.engine.list_qps()[0].path_trouble, "");
  advance(kAckTimeout);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kRetryExceeded}));
  EXPECT_THAT(a.events.failures, ElementsAre(::testing::HasSubstr("allow: the cable is cut")));
}

TEST_F(RequesterPathTest, SaysWhyNothingWasSentOrAnswered) {
  struct Case {
    bool leads_somewhere;
    const char* trouble;
    const char* failure;
  };
  for (const Case& each :
       {Case{true, "", "the peer did not answer for as long as timeout and retry_cnt allow"},
        Case{true, "the cable is cut",
             "the peer did not answer for as long as timeout and retry_cnt allow: the cable is "
             "cut"},
        Case{false, "the GID is unknown",
             "nothing could be sent for as long as timeout and retry_cnt allow: the GID is "
             "unknown"}}) {
    a.wire.leads_somewhere = each.leads_somewhere;
    a.wire.trouble = each.trouble;
    a.reset(qp);
    a.connect(qp, kPeer, connection());
    a.send(qp, write(1));
    for (int lost = 0; lost < 4; ++lost) advance(kAckTimeout);
    EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kRetryExceeded}));
    EXPECT_THAT(std::exchange(a.events.failures, {}), ElementsAre(each.failure));
  }
}

TEST_F(RequesterPathTest, TimeoutZeroWaitsForThePathForEver) {
  a.reset(qp);
  a.connect(qp, kPeer, {.sq_psn = kSqPsn, .timeout = 0});
  a.wire.room = 0;
  a.send(qp, write(1));
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
  path_takes(kAnyRoom);
  EXPECT_THAT(sent_numbers(), ElementsAre(100));
}

TEST_F(RequesterPathTest, TheTimeOfWhatIsUnansweredRunsWhileTheQpWaits) {
  a.send(qp, write(1));
  const Instant deadline = a.now + kAckTimeout;
  advance(kAckTimeout / 2);
  a.wire.room = 0;
  a.send(qp, write(2));
  a.ring(qp);  // there is no room again
  EXPECT_EQ(a.engine.next_deadline(), deadline);
  advance(kAckTimeout / 2);
  EXPECT_EQ(counters().timeouts, 1u);
  sent();
  path_takes(kAnyRoom);
  EXPECT_THAT(sent_numbers(), ElementsAre(100, 101));
}

TEST_F(RequesterPathTest, ARefusedReadWasNeverAsked) {
  a.reset(qp);
  a.connect(qp, kPeer, {.sq_psn = kSqPsn, .max_rd_atomic = 1});
  a.wire.room = 0;
  a.post(qp, read(1));
  a.send(qp, fetch_add(2));
  read_data(100, 0, std::vector<std::byte>(64));  // a forged answer: the request was not sent
  EXPECT_THAT(sends_done(), IsEmpty());
  path_takes(kAnyRoom);
  EXPECT_THAT(sent_numbers(), ElementsAre(100));
  read_data(100, 0, std::vector<std::byte>(64));
  EXPECT_THAT(sent_numbers(), ElementsAre(101));
  atomic_result(101, RequestOp::kFetchAdd, 0);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}));
}

TEST_F(RequesterPathTest, ARefusedReadsTimeBeginsWhenThePathTakesIt) {
  a.wire.room = 0;
  a.send(qp, read(1));
  advance(kAckTimeout - std::chrono::microseconds(1));
  path_takes(kAnyRoom);
  EXPECT_THAT(sent_numbers(), ElementsAre(100));
  advance(kAckTimeout - std::chrono::microseconds(1));
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(counters().timeouts, 0u);
  advance(std::chrono::microseconds(1));
  EXPECT_THAT(sent_numbers(), ElementsAre(100));
}

TEST_F(RequesterPathTest, AWaitingQpMayBeResetFailedOrDestroyed) {
  std::vector<TestQp> qps;
  for (int i = 0; i < 5; ++i) {
    qps.push_back(a.make_qp(send_cq, recv_cq));
    a.connect(qps.back(), kPeer, connection());
  }
  a.wire.room = 0;
  for (TestQp& each : qps) a.send(each, write(each.handle.value));
  a.reset(qps[1]);
  ASSERT_TRUE(a.to_state(qps[2], abi::QpState::kErr));
  ASSERT_TRUE(a.engine.destroy_qp(qps[0].handle, a.now));
  ASSERT_TRUE(a.engine.destroy_qp(qps[4].handle, a.now));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{qps[2].handle.value, CompletionStatus::kFlushed}));
  path_takes(kAnyRoom);
  const auto messages = sent();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].message.from.qpn, qps[3].qpn);
}

TEST_F(RequesterPathTest, QpsThatWaitAreServedInTheirOrder) {
  constexpr std::uint64_t kQps = 12;
  std::vector<TestQp> qps;
  a.wire.room = 0;
  for (std::uint64_t i = 0; i < kQps; ++i) {
    qps.push_back(a.make_qp(send_cq, recv_cq));
    a.connect(qps.back(), kPeer, connection());
    for (std::uint64_t wr = 0; wr < 4; ++wr) a.post(qps.back(), write(wr));
    a.ring(qps.back());
  }
  std::vector<Qpn> expected;
  for (const TestQp& each : qps) expected.insert(expected.end(), 2, each.qpn);
  std::vector<Qpn> order;
  for (std::uint64_t i = 0; i < kQps; ++i) {
    path_takes(2);  // only the QP that has waited longest finds room; then it waits behind the others
    for (const auto& one : sent()) order.push_back(one.message.from.qpn);
  }
  EXPECT_EQ(order, expected);
}

TEST_F(RequesterPathTest, WhoWaitedTakesShortTurns) {
  TestQp other = a.make_qp(send_cq, recv_cq);
  a.connect(other, kPeer, connection());
  a.wire.room = 0;
  a.send(qp, write(1, 4 * kPiece));
  a.send(other, write(2, 4 * kPiece));
  path_takes(4);
  std::vector<Qpn> order;
  for (const auto& one : sent()) order.push_back(one.message.from.qpn);
  ASSERT_THAT(order, SizeIs(4));
  EXPECT_EQ(order[0], qp.qpn);
  EXPECT_EQ(order[1], other.qpn);
}

// A busy path does not show that the peer is dead, and an answer does not show that the path has room.
TEST_F(RequesterPathTest, WaitingForThePathSpendsNoRetriesOfTheAnswers) {
  a.wire.room = 0;
  a.send(qp, write(1));
  for (int i = 0; i < 3; ++i) advance(kAckTimeout);
  path_takes(kAnyRoom);
  for (int i = 0; i < 3; ++i) advance(kAckTimeout);  // the answers are lost
  EXPECT_THAT(sent_numbers(), ElementsAre(100, 100, 100, 100));
  ack(100);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  a.wire.room = 0;
  a.send(qp, write(2));
  // All retries for the path are available again as well.
  for (int i = 0; i < 3; ++i) advance(kAckTimeout);
  EXPECT_THAT(sends_done(), IsEmpty());
}

// The peer reports progress after each kProgressBytes, and fewer bytes were sent. So it owes no answer, and
// nothing is sent twice.
TEST_F(RequesterPathTest, AMessageHalfTakenIsNotSentAgainWhileThePathIsBusy) {
  a.wire.room = 1;
  a.send(qp, write(1, 3 * kPiece));
  a.settle();
  for (int i = 0; i < 3; ++i) advance(kAckTimeout);
  path_takes(kAnyRoom);
  EXPECT_THAT(sent_offsets(), ElementsAre(0, kPiece, 2 * kPiece));
  EXPECT_EQ(counters().retransmits, 0u);
}

// --- The window ---

TEST_F(RequesterPathTest, ALongMessageStopsAtAFullWindowAndGoesOnWithProgress) {
  a.send(qp, long_write(1, 2));
  a.settle();
  EXPECT_EQ(sent_bytes(), kWindow);
  EXPECT_EQ(a.engine.next_deadline(), a.now + kAckTimeout);
  progress(100, kWindow - kLow - 1);
  EXPECT_THAT(sent(), IsEmpty());
  progress(100, kWindow - kLow);
  EXPECT_EQ(sent_bytes(), kWindow - kLow);
  progress(100, kWindow - kLow);  // says nothing new
  progress(100, 0);
  progress(100, 2 * kMrBytes);  // invalid: a whole message is acknowledged instead
  EXPECT_THAT(sent(), IsEmpty());
  progress(100, 2 * kWindow - 2 * kLow);
  EXPECT_EQ(sent_bytes(), 2 * kMrBytes - 2 * kWindow + kLow);
  ack(100);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  a.send(qp, long_write(2, 2));
  a.settle();
  EXPECT_EQ(sent_bytes(), kWindow);
}

TEST_F(RequesterPathTest, TheWindowCountsAllMessages) {
  for (std::uint64_t i = 0; i < 8; ++i) a.post(qp, write(i, 512 * 1024));
  a.ring(qp);
  a.settle();
  EXPECT_EQ(sent_bytes(), kWindow);
  ack(101);
  EXPECT_EQ(sent_bytes(), 1024u * 1024);
  advance(kAckTimeout);  // sends everything in flight again, and not a byte more
  EXPECT_EQ(sent_bytes(), kWindow);
  ack(107);  // this one was never sent
  EXPECT_THAT(sends_done(), SizeIs(2));
  ack(105);
  EXPECT_THAT(sends_done(), SizeIs(4));
  EXPECT_EQ(sent_bytes(), 1024u * 1024);
  ack(107);
  EXPECT_THAT(sends_done(), SizeIs(2));
}

TEST_F(RequesterPathTest, AFullWindowOpensAgainWhenItIsHalfEmpty) {
  for (std::uint64_t i = 0; i < 8; ++i) a.post(qp, write(i, kWindow / 4));
  a.ring(qp);
  a.settle();
  EXPECT_EQ(sent_bytes(), kWindow);
  ack(100);
  EXPECT_THAT(sent(), IsEmpty());
  ack(101);
  EXPECT_EQ(sent_bytes(), kWindow / 2);
}

TEST_F(RequesterPathTest, ReadsAskForOneWindowOfData) {
  for (std::uint64_t i = 0; i < 4; ++i) a.post(qp, read(i, 1024 * 1024));
  a.ring(qp);
  a.settle();
  EXPECT_EQ(sent_bytes(), kWindow);
  for (std::uint32_t i = 0; i < 4; ++i) read_data(100, i * kPiece, std::vector<std::byte>(kPiece));
  EXPECT_EQ(sent_bytes(), 1024u * 1024);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{0}));
}

TEST_F(RequesterPathTest, ProgressRestartsTimeAndPatience) {
  a.send(qp, write(1, 4 * kPiece));
  a.settle();
  sent();
  for (int lost = 0; lost < 3; ++lost) advance(kAckTimeout);
  progress(100, 2 * kPiece);
  sent();
  advance(kAckTimeout - Duration(1));
  EXPECT_THAT(sent(), IsEmpty());
  advance(Duration(1));
  EXPECT_THAT(sent_offsets(), ElementsAre(2 * kPiece, 3 * kPiece));
  for (int lost = 0; lost < 2; ++lost) advance(kAckTimeout);
  EXPECT_THAT(sends_done(), IsEmpty());
  advance(kAckTimeout);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kRetryExceeded}));
}

TEST_F(RequesterPathTest, AFullWindowWithoutAnswersIsSentAgain) {
  a.send(qp, long_write(1, 2));
  a.settle();
  sent();
  advance(kAckTimeout);
  const auto again = sent_offsets();
  ASSERT_THAT(again, SizeIs(kWindow / kPiece));
  EXPECT_EQ(again.front(), 0u);
  progress(100, kWindow);
  EXPECT_EQ(sent_offsets().front(), kWindow);
}

TEST_F(RequesterPathTest, ProgressBeyondWhatIsToBeSentAgainSkipsIt) {
  a.send(qp, write(1, 4 * kPiece));
  a.settle();
  sent();
  a.now = a.now + kAckTimeout;
  a.engine.on_time(a.now);  // the message must be sent again from the beginning
  progress(100, 3 * kPiece);
  EXPECT_THAT(sent_offsets(), ElementsAre(3 * kPiece));
}

// Half of a failed message stays unanswered. It must not prevent an earlier work request from being sent
// again.
TEST_F(RequesterPathTest, AFailedMessageHoldsNoRoom) {
  a.post(qp, read(1));
  SendWr broken = long_write(2, 1);
  broken.sges[0].length -= kPiece;
  broken.sges.push_back({mr.start, 64, mr.key ^ 0x100});
  a.post(qp, broken);
  a.ring(qp);
  a.settle();
  advance(kAckTimeout);
  read_data(100, 0, std::vector<std::byte>(64));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2, CompletionStatus::kLocalProtection}));
}

// --- A path that breaks ---

TEST_F(RequesterPathTest, AfterABreakTheUnansweredGoesOutAgainAtNoRetrysCost) {
  a.post(qp, write(1));
  a.post(qp, write(2, 3 * kPiece));
  a.post(qp, read(3, 2 * kPiece));
  a.post(qp, fetch_add(4));
  a.ring(qp);
  a.settle();
  ack(100);
  progress(101, 2 * kPiece);
  read_data(102, 0, std::vector<std::byte>(kPiece));  // this means that all of 101 was executed
  sent();
  for (int i = 0; i < 10; ++i) {
    path_breaks();
    const auto again = sent();
    ASSERT_THAT(again, SizeIs(2));
    EXPECT_EQ(again[0].message.number, MessageNumber(102));
    EXPECT_EQ(again[0].message.offset, kPiece);
    EXPECT_EQ(again[1].message.number, MessageNumber(103));
  }
  EXPECT_EQ(a.engine.next_deadline() > a.now, true);
  read_data(102, kPiece, std::vector<std::byte>(kPiece));
  atomic_result(103, RequestOp::kFetchAdd, 7);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}, Completion{3}, Completion{4}));
  EXPECT_EQ(counters().timeouts, 0u);
  path_breaks();
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(RequesterPathTest, AfterABreakAMessageGoesOnBehindWhatIsConfirmed) {
  a.send(qp, write(1, 4 * kPiece));
  a.settle();
  progress(100, 2 * kPiece);
  sent();
  path_breaks();
  EXPECT_THAT(sent_offsets(), ElementsAre(2 * kPiece, 3 * kPiece));
}

TEST_F(RequesterPathTest, TheTimeBeginsAnewAfterABreak) {
  a.send(qp, write(1));
  advance(kAckTimeout - Duration(1));
  path_breaks();
  sent();
  advance(kAckTimeout - Duration(1));
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(counters().timeouts, 0u);
}

TEST_F(RequesterPathTest, OtherPeersBreaksAreNotOurs) {
  a.send(qp, write(1));
  sent();
  a.engine.on_path_restored([](const Endpoint&, const Endpoint& peer) { return peer.gid != kPeer.gid; },
                            a.now);
  a.settle();
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(RequesterPathTest, ABreakDoesNotShortenAReceiverNotReadyPause) {
  a.send(qp, send_wr(1));
  sent();
  nak(100, Syndrome::kRnrNak);
  advance(kRnrDelay / 2);
  path_breaks();
  EXPECT_THAT(sent(), IsEmpty());
  advance(kRnrDelay / 2);
  EXPECT_THAT(sent_numbers(), ElementsAre(100));
}

TEST_F(RequesterPathTest, ABreakWakesWhoWaitedForThePath) {
  a.wire.room = 1;
  a.post(qp, write(1));
  a.send(qp, write(2));
  a.wire.room = kAnyRoom;
  path_breaks();
  EXPECT_THAT(sent_numbers(), ElementsAre(100, 100, 101));
}

TEST_F(RequesterPathTest, ABreakMeansNothingToAQpThatDoesNotSend) {
  a.send(qp, write(1));
  sent();
  ASSERT_TRUE(a.to_state(qp, abi::QpState::kErr));
  path_breaks();
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_THAT(sends_done(), SizeIs(1));
}

// --- Read data in pieces ---

TEST_F(RequesterPathTest, ReadDataComesInAnyPieces) {
  const auto data = TestAdapter::pattern_bytes(1000, 9);
  const auto piece = [&](std::uint32_t from, std::uint32_t to) {
    read_data(100, from, {data.begin() + from, data.begin() + to});
  };
  a.send(qp, read(1, 1000));
  piece(0, 300);
  piece(300, 301);
  piece(100, 200);  // a duplicate
  piece(0, 301);
  piece(400, 500);  // too early
  piece(150, 700);  // some bytes are known, some are new
  EXPECT_THAT(sends_done(), IsEmpty());
  piece(600, 1000);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.bytes(mr, 0, 1000), data);
}

TEST_F(RequesterPathTest, ReadDataThatDoesNotComeIsAskedForAgain) {
  a.send(qp, read(1, 1000));
  read_data(100, 0, std::vector<std::byte>(400));
  sent();
  const Response rest{.from = kPeer,
                      .to = a.endpoint(qp),
                      .number = MessageNumber(100),
                      .syndrome = Syndrome::kAck,
                      .op = RequestOp::kRead,
                      .offset = 400,
                      .bytes = 600};
  TestPayload never(std::vector<std::byte>(600), false);
  a.engine.on_response(rest, never, a.now);
  EXPECT_THAT(sends_done(), IsEmpty());
  advance(kAckTimeout);
  EXPECT_THAT(sent_offsets(), ElementsAre(400));
  read_data(100, 400, std::vector<std::byte>(600));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
}

// --- Whose turn ends where ---

TEST_F(RequesterPathTest, EachTurnOfTheEngineEndsWithAFlush) {
  const auto flushes = [&] { return std::exchange(a.wire.flushes, 0); };
  flushes();
  a.send(qp, write(1));
  EXPECT_EQ(flushes(), 1u);
  a.engine.run(a.now);
  EXPECT_EQ(flushes(), 1u);
  a.engine.on_time(a.now);
  EXPECT_EQ(flushes(), 1u);
  ASSERT_TRUE(a.to_state(qp, abi::QpState::kSqd));
  EXPECT_EQ(flushes(), 1u);
  SpanPayload nothing;
  a.engine.on_request(request(RequestOp::kRead, kRqPsn, 0), nothing, a.now);
  a.engine.on_response({.from = kPeer, .to = a.endpoint(qp), .number = MessageNumber(100)}, nothing, a.now);
  EXPECT_EQ(flushes(), 0u);  // the transport may bring more messages, and flushes after the last
}

}  // namespace
}  // namespace pvrdma::verbs
