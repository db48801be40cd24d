// What happens in each QP state: events, draining, flushing, RESET, and the destruction of a QP that has
// work.
#include "verbs/connected_qp_fixture.h"

namespace pvrdma::verbs {
namespace {

using abi::CompletionStatus;
using abi::EventType;
using abi::QpState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Event = RecordingEvents::Event;

class QpStatesTest : public ConnectedQp {
 protected:
  Event event(EventType type) const { return {type, qp.handle.value}; }
  void back_to_rtr() {
    a.reset(qp);
    a.to_init(qp);
    a.to_rtr(qp, kPeer);
  }
  std::vector<Completion> flushed(std::uint64_t first, std::uint64_t last) {
    std::vector<Completion> out;
    for (std::uint64_t i = first; i <= last; ++i) out.push_back({i, CompletionStatus::kFlushed});
    return out;
  }
};

TEST_F(QpStatesTest, TheFirstMessageInRtrRaisesCommunicationEstablished) {
  back_to_rtr();
  for (std::uint32_t i = 0; i < 2; ++i) ask_filled(request(RequestOp::kWrite, kRqPsn + i, 8));
  EXPECT_THAT(a.events.async, ElementsAre(event(EventType::kCommEst)));
  EXPECT_THAT(answers(), SizeIs(2));
}

// --- The path ---

class QpPathTest : public QpStatesTest {
 protected:
  std::vector<Connection> opened() { return std::exchange(a.wire.opened, {}); }
};

TEST_F(QpPathTest, OpensWithItsTwoEndsOnTheWayToRtr) {
  opened();
  a.reset(qp);
  a.to_init(qp);
  EXPECT_THAT(opened(), IsEmpty());
  a.to_rtr(qp, kPeer);
  const auto paths = opened();
  ASSERT_THAT(paths, SizeIs(1));
  EXPECT_EQ(paths[0].local, a.endpoint(qp));
  EXPECT_EQ(paths[0].remote, kPeer);
  a.to_rts(qp);
  a.send(qp, write(1));
  ask_filled(request(RequestOp::kWrite, kRqPsn, 8));
  EXPECT_THAT(opened(), IsEmpty()) << "requests and answers take the same one";
}

TEST_F(QpPathTest, OpensAnewWithTheNextMessageWhenItMayBeAnother) {
  opened();
  ++a.wire.generation;
  a.settle();
  EXPECT_THAT(opened(), IsEmpty()) << "nobody looks at all QPs";
  a.send(qp, write(1));
  EXPECT_THAT(opened(), SizeIs(1));
  ++a.wire.generation;
  ask_filled(request(RequestOp::kWrite, kRqPsn, 8));
  EXPECT_THAT(opened(), SizeIs(1));
}

TEST_F(QpPathTest, LeadsElsewhereWithAnotherAddress) {
  ASSERT_TRUE(a.to_state(qp, QpState::kSqd));
  opened();
  abi::QpAttr attr{};
  attr.ah_attr.ah_flags = abi::kAhGrh;
  attr.ah_attr.grh.dgid.raw = test_gid(77).bytes;
  ASSERT_TRUE(a.modify(qp, abi::kQpAttrAv, attr));
  ASSERT_TRUE(a.to_state(qp, QpState::kRts));
  a.send(qp, write(1));
  const auto paths = opened();
  ASSERT_THAT(paths, SizeIs(1));
  EXPECT_EQ(paths[0].remote.gid, test_gid(77));
}

// --- Events ---

TEST_F(QpStatesTest, InRtsThereIsNoSuchEvent) {
  ask_filled(request(RequestOp::kWrite, kRqPsn, 8));
  EXPECT_THAT(a.events.async, IsEmpty());
}

TEST_F(QpStatesTest, NothingIsSentBelowRts) {
  back_to_rtr();
  a.send(qp, write(1));
  a.settle();
  EXPECT_THAT(sent(), IsEmpty());
  a.to_rts(qp);
  EXPECT_THAT(sent_numbers(), ElementsAre(100)) << "posted before, sent without another doorbell";
}

TEST_F(QpStatesTest, NothingIsReceivedBelowRtr) {
  a.reset(qp);
  a.to_init(qp);
  ask_filled(request(RequestOp::kWrite, kRqPsn, 8));
  EXPECT_THAT(answers(), IsEmpty());
}

TEST_F(QpStatesTest, SqdFinishesWhatWasBegunAndReportsIt) {
  a.send(qp, write(1));
  abi::QpAttr attr{};
  attr.en_sqd_async_notify = 1;
  ASSERT_TRUE(a.to_state(qp, QpState::kSqd, abi::kQpAttrEnSqdAsyncNotify, attr));
  EXPECT_EQ(a.engine.query_qp(qp.handle)->sq_draining, 1);
  a.send(qp, write(2));
  EXPECT_THAT(sent_numbers(), ElementsAre(100));
  EXPECT_THAT(a.events.async, IsEmpty());
  ack(100);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_THAT(a.events.async, ElementsAre(event(EventType::kSqDrained)));
  EXPECT_EQ(a.engine.query_qp(qp.handle)->sq_draining, 0);

  ask_filled(request(RequestOp::kWrite, kRqPsn, 8));
  EXPECT_THAT(answers(), SizeIs(1)) << "the receive side goes on";
  ASSERT_TRUE(a.to_state(qp, QpState::kRts));
  EXPECT_THAT(sent_numbers(), ElementsAre(101));
  EXPECT_THAT(a.events.async, SizeIs(1));
}

TEST_F(QpStatesTest, AnIdleQueueIsDrainedAtOnceAndSilentlyUnlessAskedFor) {
  ASSERT_TRUE(a.to_state(qp, QpState::kSqd));
  EXPECT_THAT(a.events.async, IsEmpty());
  ASSERT_TRUE(a.to_state(qp, QpState::kRts));
  abi::QpAttr attr{};
  attr.en_sqd_async_notify = 1;
  ASSERT_TRUE(a.to_state(qp, QpState::kSqd, abi::kQpAttrEnSqdAsyncNotify, attr));
  EXPECT_THAT(a.events.async, ElementsAre(event(EventType::kSqDrained)));
}

TEST_F(QpStatesTest, SqdStillRepeatsWhatIsLost) {
  a.send(qp, write(1));
  ASSERT_TRUE(a.to_state(qp, QpState::kSqd));
  sent();
  advance(kAckTimeout);
  EXPECT_THAT(sent_numbers(), ElementsAre(100));
}

TEST_F(QpStatesTest, ErrFlushesBothQueuesInOrder) {
  for (std::uint64_t i = 1; i <= 40; ++i) a.post(qp, write(i));  // more than the window holds
  a.ring(qp);
  for (std::uint64_t i = 1; i <= 5; ++i) a.receive(qp, {.wr_id = 100 + i, .sges = {mr.sge(0, 8)}});
  ASSERT_TRUE(a.to_state(qp, QpState::kErr));
  EXPECT_EQ(sends_done(), flushed(1, 40)) << "before the command is answered";
  EXPECT_EQ(receives_done(), flushed(101, 105));
  a.send(qp, write(41));
  a.receive(qp, {.wr_id = 106});
  EXPECT_EQ(sends_done(), flushed(41, 41));
  EXPECT_EQ(receives_done(), flushed(106, 106));
  EXPECT_EQ(a.engine.counters().flushed, 47u);
}

TEST_F(QpStatesTest, UnsignalledWorkIsFlushedWithACqeToo) {
  SendWr quiet = write(1);
  quiet.flags = 0;
  a.send(qp, quiet);
  ASSERT_TRUE(a.to_state(qp, QpState::kErr));
  EXPECT_EQ(sends_done(), flushed(1, 1));
}

TEST_F(QpStatesTest, FlushingAHugeQueueTakesSeveralTurns) {
  TestCq big = a.make_cq(8192);
  TestQp huge = a.make_qp(big, big, {.max_send_wr = 4096, .max_recv_wr = 4096});
  a.connect(huge, kPeer);
  for (std::uint64_t i = 0; i < 4096; ++i) TestAdapter::post_receive(huge.receives, {.wr_id = i});
  ASSERT_TRUE(a.to_state(huge, QpState::kErr));
  EXPECT_LT(a.poll(big).size(), 2000u);
  a.settle();
  a.poll(big);
  EXPECT_EQ(a.engine.counters().flushed, 4096u);
}

TEST_F(QpStatesTest, AReceiveUnderWayIsFlushedFirst) {
  for (std::uint64_t i = 1; i <= 2; ++i) a.receive(qp, {.wr_id = i, .sges = {mr.sge(0, 200)}});
  Request piece = request(RequestOp::kSend, kRqPsn, 200);
  piece.bytes = 100;
  ask_filled(piece);
  ASSERT_TRUE(a.to_state(qp, QpState::kErr));
  EXPECT_EQ(receives_done(), flushed(1, 2));
}

TEST_F(QpStatesTest, InErrAnswersAndRequestsAreIgnoredAndNoTimerRuns) {
  a.send(qp, write(1));
  ASSERT_TRUE(a.to_state(qp, QpState::kErr));
  sends_done();
  ack(100);
  ask_filled(request(RequestOp::kWrite, kRqPsn, 8));
  advance(std::chrono::seconds(10));
  EXPECT_THAT(sends_done(), IsEmpty());
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_EQ(a.engine.counters().timeouts, 0u);
}

TEST_F(QpStatesTest, ResetForgetsEverythingWithoutACompletion) {
  a.post(qp, read(1));
  a.send(qp, write(2));
  a.receive(qp, {.wr_id = 3, .sges = {mr.sge(0, 200)}});
  Request piece = request(RequestOp::kSend, kRqPsn, 200);
  piece.bytes = 100;
  ask_filled(piece);
  sent();
  ASSERT_TRUE(a.to_state(qp, QpState::kReset));
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
  ack(101);
  for (test::RingPeer* ring : {&qp.sends, &qp.receives}) {  // what the guest does after the command
    ring->set_prod_tail(0);
    ring->set_cons_head(0);
  }
  a.settle();
  EXPECT_THAT(sends_done(), IsEmpty());
  EXPECT_THAT(receives_done(), IsEmpty());

  a.connect(qp, kPeer, {.sq_psn = 7, .rq_psn = 9});
  // The earlier ones no longer count as outstanding.
  for (std::uint64_t i = 10; i <= 13; ++i) a.post(qp, fetch_add(i));
  a.ring(qp);
  EXPECT_THAT(sent_numbers(), ElementsAre(7, 8, 9, 10));
  a.receive(qp, {.wr_id = 20});
  ask(request(RequestOp::kSend, 9));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{20}));
}

TEST_F(QpStatesTest, AQpMayGoWhileItIsReadyAndArmed) {
  TestQp other = a.make_qp(send_cq, recv_cq);
  a.connect(other, kPeer);
  // The QP is ready because more is to be sent, and armed because requests are unanswered.
  a.send(qp, write(1, kMrBytes));
  a.send(other, write(2, kMrBytes));
  ASSERT_TRUE(a.engine.destroy_qp(qp.handle, a.now));
  a.settle();
  advance(kAckTimeout * 2);
  EXPECT_THAT(sends_done(), IsEmpty());
  ASSERT_TRUE(a.engine.destroy_qp(other.handle, a.now));
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
  EXPECT_FALSE(a.engine.run(a.now));
  EXPECT_FALSE(a.engine.destroy_qp(qp.handle, a.now));
}

TEST_F(QpStatesTest, TheEngineMayBeResetWhileItHasWork) {
  a.send(qp, write(1, kMrBytes));
  a.engine.reset();
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
  EXPECT_FALSE(a.engine.run(a.now));
  EXPECT_EQ(a.engine.object_counts().qps, 0u);
  EXPECT_EQ(send_cq.ring.waiting(), 0u);
}

TEST_F(QpStatesTest, ANumberComesBackLateEvenAfterAReset) {
  for (const bool handle_is_qpn : {false, true}) {
    TestAdapter adapter{51, 1, {.qp_handle_is_qpn = handle_is_qpn}};
    const auto make_qp = [&adapter] {
      const TestCq cq = adapter.make_cq();
      return adapter.make_qp(cq, cq).qpn;
    };
    const Qpn before = make_qp();
    adapter.engine.reset();
    ASSERT_TRUE(adapter.engine.create_context(1));
    adapter.pd = *adapter.engine.create_pd(ContextHandle(1));
    EXPECT_NE(make_qp(), before) << handle_is_qpn;
  }
}

// --- Shared receive queues ---

class SrqTest : public QpStatesTest {
 protected:
  SrqTest() { a.connect(shared_qp, kPeer); }
  Request to_shared(RequestOp op, std::uint32_t number, std::uint32_t bytes) {
    Request out = request(op, number, bytes);
    out.to = a.endpoint(shared_qp);
    return out;
  }
  TestSrq srq = a.make_srq(16, 2);
  TestQp shared_qp = a.make_qp(send_cq, recv_cq, {.srq = &srq});
};

TEST_F(SrqTest, FeedsMessagesAndReportsItsLimitOnce) {
  for (std::uint64_t i = 1; i <= 3; ++i)
    TestAdapter::post_receive(srq.ring, {.wr_id = i, .sges = {mr.sge(0, 8)}});
  for (std::uint32_t i = 0; i < 4; ++i) ask_filled(to_shared(RequestOp::kSend, kRqPsn + i, 8));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}, Completion{2}, Completion{3}));
  EXPECT_THAT(a.events.async, ElementsAre(Event{EventType::kSrqLimitReached, srq.handle.value}));
  EXPECT_EQ(answers().back().message.syndrome, Syndrome::kRnrNak);
}

TEST_F(SrqTest, ADyingQpReportsItsLastWqeAndLeavesTheRest) {
  TestAdapter::post_receive(srq.ring, {.wr_id = 1, .sges = {mr.sge(0, 200)}});
  TestAdapter::post_receive(srq.ring, {.wr_id = 2, .sges = {mr.sge(0, 200)}});
  ASSERT_TRUE(a.engine.modify_srq(srq.handle, 0));
  Request piece = to_shared(RequestOp::kSend, kRqPsn, 200);
  piece.bytes = 100;
  ask_filled(piece);
  a.send(shared_qp, write(7));
  ASSERT_TRUE(a.to_state(shared_qp, QpState::kErr));
  a.settle();
  EXPECT_EQ(sends_done(), flushed(7, 7));
  EXPECT_EQ(receives_done(), flushed(1, 1));
  EXPECT_THAT(a.events.async, ElementsAre(Event{EventType::kQpLastWqeReached, shared_qp.handle.value}));
  EXPECT_EQ(srq.ring.waiting(), 1u);
}

TEST_F(SrqTest, StaysWhileAQpUsesIt) {
  EXPECT_EQ(a.engine.destroy_srq(srq.handle).error(), CommandError::kBusy);
  ASSERT_TRUE(a.engine.destroy_qp(shared_qp.handle, a.now));
  EXPECT_TRUE(a.engine.destroy_srq(srq.handle));
}

}  // namespace
}  // namespace pvrdma::verbs
