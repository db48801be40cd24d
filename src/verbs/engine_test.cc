// The engine as a whole: doorbells, CQs that overflow, hostile rings, and two engines (or one QP) that
// exchange messages.
#include "verbs/connected_qp_fixture.h"

namespace pvrdma::verbs {
namespace {

using abi::CompletionStatus;
using abi::EventType;
using abi::QpState;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Event = RecordingEvents::Event;

class EngineTest : public ConnectedQp {};

TEST_F(EngineTest, MoreElementsOfAWqeThanArraysHaveRoomForAreOurBug) {
  EXPECT_DEATH(Engine(Limits{.max_sge = kSgeMax + 1}, Rules{}, a.memory.space(), a.events, a.wire, a.account),
               "fits into the arrays");
}

// --- Doorbells ---

TEST_F(EngineTest, DoorbellsOfOtherContextsAndUnknownHandlesAreCountedAndIgnored) {
  ASSERT_TRUE(a.engine.create_context(2));
  a.post(qp, write(1));
  a.engine.send_doorbell(2, qp.handle, a.now);
  a.engine.send_doorbell(0, qp.handle, a.now);
  a.engine.send_doorbell(1, QpHandle(0xff'ffff), a.now);
  a.engine.receive_doorbell(2, qp.handle, a.now);
  a.engine.arm_cq(2, send_cq.handle, CompletionQueue::Arm::kAny);
  a.engine.arm_cq(1, CqHandle(0xff'ffff), CompletionQueue::Arm::kAny);
  a.engine.srq_doorbell(1, SrqHandle(3), a.now);
  a.settle();
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(a.engine.counters().bad_doorbells, 7u);
  a.ring(qp);
  ack(100);
  EXPECT_THAT(a.events.completions, IsEmpty()) << "the foreign ARM did nothing";
}

TEST_F(EngineTest, AnArmedCqFiresOnce) {
  a.engine.arm_cq(1, send_cq.handle, CompletionQueue::Arm::kAny);
  for (std::uint64_t i = 1; i <= 2; ++i) a.post(qp, write(i));
  a.ring(qp);
  ack(101);
  EXPECT_THAT(a.events.completions, ElementsAre(send_cq.handle));
}

// --- Overflowing CQs ---

TEST_F(EngineTest, AFullCqFailsTheQpThatCompletesWithoutOverwritingAnything) {
  TestCq small = a.make_cq(4);
  TestQp one = a.make_qp(small, recv_cq);
  TestQp two = a.make_qp(send_cq, small);
  a.connect(one, kPeer);
  a.connect(two, kPeer);
  for (std::uint64_t i = 1; i <= 8; ++i) a.post(one, write(i));
  a.ring(one);
  for (std::uint32_t number = 100; number < 106; ++number) {
    SpanPayload nothing;
    a.engine.on_response({.from = kPeer, .to = a.endpoint(one), .number = MessageNumber(number)}, nothing,
                         a.now);
  }
  a.settle();
  EXPECT_EQ(a.state(one), QpState::kErr);
  EXPECT_EQ(a.state(two), QpState::kRts) << "it has completed nothing there yet";
  EXPECT_EQ(a.state(qp), QpState::kRts);
  EXPECT_THAT(a.poll(small), ElementsAre(Completion{1}, Completion{2}, Completion{3}, Completion{4}));
  EXPECT_THAT(a.events.async, ElementsAre(Event{EventType::kCqErr, small.handle.value},
                                          Event{EventType::kQpFatal, one.handle.value}));

  a.receive(two, {.wr_id = 5});
  Request send = request(RequestOp::kSend, kRqPsn);
  send.to = a.endpoint(two);
  ask(send);
  EXPECT_EQ(answered().syndrome, Syndrome::kNakRemoteOperational);
  EXPECT_EQ(a.state(two), QpState::kErr) << "room again, but the CQ stays in error";
  EXPECT_THAT(a.poll(small), IsEmpty());
  EXPECT_THAT(a.events.async, Contains(Event{EventType::kQpFatal, two.handle.value}));
  a.send(two, write(9));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{9, CompletionStatus::kFlushed}))
      << "the other CQ still works";
}

// Many QPs share a CQ in error: a completion there fails only the QP that it belongs to.
TEST_F(EngineTest, OfManyQpsOnACqInErrorOnlyThePushingOneFails) {
  TestCq small = a.make_cq(1);
  std::vector<TestQp> qps;
  for (int i = 0; i < 50; ++i) {
    qps.push_back(a.make_qp(small, recv_cq, {.max_send_wr = 8, .max_recv_wr = 8}));
    a.connect(qps.back(), kPeer);
  }
  const auto complete = [&](TestQp& one) {
    a.send(one, write(1, 0));
    SpanPayload nothing;
    a.engine.on_response({.from = kPeer, .to = a.endpoint(one), .number = MessageNumber(kSqPsn)}, nothing,
                         a.now);
    a.settle();
  };
  complete(qps[0]);  // takes the only slot
  std::vector<Event> expected{{EventType::kCqErr, small.handle.value}};
  for (const std::size_t next : {30u, 7u, 49u}) {
    complete(qps[next]);
    expected.emplace_back(EventType::kQpFatal, qps[next].handle.value);
    EXPECT_EQ(a.events.async, expected);
  }
  std::size_t failed = 0;
  for (const TestQp& one : qps) failed += a.state(one) == QpState::kErr ? 1 : 0;
  EXPECT_EQ(failed, 3u);
  EXPECT_THAT(a.events.failures, SizeIs(3));
}

TEST_F(EngineTest, AFullReceiveCqRefusesTheMessage) {
  TestCq small = a.make_cq(1);
  TestQp one = a.make_qp(send_cq, small);
  a.connect(one, kPeer);
  for (std::uint64_t i = 1; i <= 2; ++i) a.receive(one, {.wr_id = i});
  for (std::uint32_t i = 0; i < 2; ++i) {
    Request send = request(RequestOp::kSend, kRqPsn + i);
    send.to = a.endpoint(one);
    ask(send);
  }
  const auto all = answers();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[1].message.syndrome, Syndrome::kNakRemoteOperational);
  EXPECT_THAT(a.poll(small), ElementsAre(Completion{1}));
}

// --- Views ---

TEST(EngineViews, QpsAreListedInPartsEachOnce) {
  TestAdapter a(51, 1, {}, 128u << 20);
  const TestCq cq = a.make_cq();
  std::vector<Qpn> expected;
  for (std::uint32_t i = 0; i < 2 * Engine::kSlotsPerPage; ++i) {
    expected.push_back(a.make_qp(cq, cq, {.max_send_wr = 1, .max_recv_wr = 1}).qpn);
  }
  std::vector<Qpn> listed;
  std::size_t pages = 0;
  for (std::optional<std::uint32_t> next = 0; next; ++pages) {
    const Engine::QpPage page = a.engine.list_qps_from(*next);
    EXPECT_LE(page.qps.size(), Engine::kSlotsPerPage);
    for (const QpInfo& info : page.qps) listed.push_back(info.qpn);
    next = page.next;
  }
  EXPECT_EQ(listed, expected);
  EXPECT_EQ(pages, 3u) << "the first slots are never used";
  EXPECT_THAT(a.engine.list_qps_from(~0U).qps, IsEmpty());
  EXPECT_EQ(a.engine.list_qps().size(), expected.size());
}

// A path that carries packets may ask the kernel. One that leads nowhere has its reason at hand. Others have
// none to tell.
TEST(EngineViews, APageAsksFewPathsForTheirTrouble) {
  struct Asked final : public Path {
    Asked(bool carries_packets, bool leads_somewhere, int& times)
        : Path(carries_packets), leads_somewhere_(leads_somewhere), times_(times) {}
    bool leads_somewhere() const override { return leads_somewhere_; }
    std::string trouble() const override {
      ++times_;
      return "the cable is cut";
    }
    std::uint32_t room(std::uint32_t wanted, Instant) override { return wanted; }
    void send_request(const Request&, const guestmem::SpanList&, Instant) override {}
    void send_response(const Response&, const guestmem::SpanList&, Instant) override {}
    const bool leads_somewhere_;
    int& times_;
  };
  constexpr std::uint32_t kQps = 2 * Engine::kPathsAskedPerPage;
  for (const auto& [carries_packets, leads_somewhere] :
       {std::pair(false, true), std::pair(true, true), std::pair(false, false)}) {
    const bool is_asked = carries_packets || !leads_somewhere;
    TestAdapter a(51, 1, {}, 128u << 20);
    int asked = 0;
    a.wire.open_other = [&, packets = carries_packets, somewhere = leads_somewhere](const Connection&,
                                                                                    PathSlot& slot) {
      slot.open<Asked>(packets, somewhere, asked);
    };
    const TestCq cq = a.make_cq();
    for (std::uint32_t i = 0; i < kQps; ++i) {
      a.connect(a.make_qp(cq, cq, {.max_send_wr = 1, .max_recv_wr = 1}), kPeer);
    }
    for (std::optional<std::uint32_t> next = 0; next;) {
      asked = 0;
      const Engine::QpPage page = a.engine.list_qps_from(*next);
      EXPECT_EQ(page.qps.size(), carries_packets ? Engine::kPathsAskedPerPage : kQps);
      EXPECT_EQ(static_cast<std::size_t>(asked), is_asked ? page.qps.size() : 0U);
      for (const QpInfo& qp : page.qps) EXPECT_EQ(qp.path_trouble, is_asked ? "the cable is cut" : "");
      next = page.next;
    }
    EXPECT_EQ(a.engine.list_qps().size(), kQps);
  }
}

// --- Hostile rings ---

TEST_F(EngineTest, ASendQueueWithAnImpossibleIndexEndsItsQp) {
  for (const std::uint32_t index : {65u, 128u, 0xffff'ffffu}) {
    TestQp bad = a.make_qp(send_cq, recv_cq);
    a.connect(bad, kPeer);
    bad.sends.set_prod_tail(index);
    a.ring(bad);
    a.settle();
    EXPECT_EQ(a.state(bad), QpState::kErr) << index;
    EXPECT_THAT(a.events.async, Contains(Event{EventType::kQpFatal, bad.handle.value}));
  }
  EXPECT_EQ(a.engine.counters().invalid_ring_indices, 3u);
  EXPECT_THAT(sent(), IsEmpty());
  a.send(qp, write(1));
  EXPECT_THAT(sent(), SizeIs(1));
}

TEST_F(EngineTest, AReceiveQueueWithAnImpossibleIndexEndsItsQp) {
  qp.receives.set_prod_tail(0x8000'0000);
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  EXPECT_EQ(answers().back().message.syndrome, Syndrome::kNakRemoteOperational);
  EXPECT_EQ(a.state(qp), QpState::kErr);
  EXPECT_THAT(a.events.async, ElementsAre(Event{EventType::kQpFatal, qp.handle.value}));
  EXPECT_EQ(a.engine.counters().invalid_ring_indices, 1u);
}

TEST_F(EngineTest, ACqWithAnImpossibleIndexIsInError) {
  a.send(qp, write(1));
  send_cq.ring.set_cons_head(0x100);
  ack(100);
  EXPECT_EQ(a.state(qp), QpState::kErr);
  EXPECT_THAT(a.events.async, Contains(Event{EventType::kCqErr, send_cq.handle.value}));
}

TEST_F(EngineTest, AGuestThatGoesOnPostingHoldsNobodyUp) {
  TestQp busy = a.make_qp(send_cq, recv_cq, {.max_send_wr = 1024});
  a.connect(busy, kPeer);
  for (std::uint64_t i = 0; i < 1024; ++i) {
    SendWr quiet = write(i, 0);
    quiet.flags = 0;
    a.post(busy, quiet);
  }
  a.wire.peer = &a.engine;  // messages find no peer and get no answer: kPeer does not exist here
  a.ring(busy);
  EXPECT_LT(busy.sends.cons_head(), 512u);
}

TEST_F(EngineTest, RingPagesThatVanishEndTheQp) {
  a.memory.space().unmap_all();
  a.ring(qp);
  EXPECT_EQ(a.state(qp), QpState::kErr);
  a.settle();
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  EXPECT_TRUE(a.engine.destroy_qp(qp.handle, a.now));
}

TEST_F(EngineTest, DestroyingAContextTakesAllOfItAlong) {
  a.send(qp, write(1));
  ASSERT_TRUE(a.engine.destroy_context(ContextHandle(1)));
  const auto counts = a.engine.object_counts();
  EXPECT_EQ(counts.qps + counts.cqs + counts.pds + counts.mrs + counts.contexts, 0u);
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
}

// --- A QP connected to itself ---

TEST(SelfConnected, SendsToItself) {
  TestAdapter a{51};
  TestCq cq = a.make_cq();
  TestMr mr = a.make_mr(3u << 20);
  TestQp qp = a.make_qp(cq, cq);
  a.wire.peer = &a.engine;
  a.connect(qp, a.endpoint(qp), {.sq_psn = 5, .rq_psn = 5});
  a.fill(mr, 0, 1u << 20, 3);
  a.receive(qp, {.wr_id = 10, .sges = {mr.sge(2u << 20, 100)}});
  a.post(qp,
         {.wr_id = 1, .sges = {mr.sge(0, 1u << 20)}, .remote_addr = mr.start + (1u << 20), .rkey = mr.key});
  a.post(qp, {.wr_id = 2, .opcode = abi::Opcode::kSend, .sges = {mr.sge(0, 100)}});
  a.post(qp, {.wr_id = 3,
              .opcode = abi::Opcode::kRdmaRead,
              .sges = {mr.sge(2u << 20, 50)},
              .remote_addr = mr.start + 50,
              .rkey = mr.key});
  a.post(qp, {.wr_id = 4, .opcode = abi::Opcode::kRdmaWrite, .sges = {mr.sge(0, 1)}, .rkey = 0});
  a.post(qp, {.wr_id = 5, .opcode = abi::Opcode::kSend, .sges = {mr.sge(0, 100)}});
  a.ring(qp);
  a.settle();
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{1}, Completion{10}, Completion{2}, Completion{3},
                                      Completion{4, CompletionStatus::kRemoteAccess},
                                      Completion{5, CompletionStatus::kFlushed}));
  EXPECT_EQ(a.bytes(mr, 1u << 20, 1u << 20), TestAdapter::pattern_bytes(1u << 20, 3));
  const auto pattern = TestAdapter::pattern_bytes(100, 3);
  EXPECT_EQ(a.bytes(mr, 2u << 20, 50), std::vector(pattern.begin() + 50, pattern.end()));
}

// --- Two engines ---

class TwoEngines : public ::testing::Test {
 protected:
  void SetUp() override {
    a.wire.peer = &b.engine;
    b.wire.peer = &a.engine;
    a.connect(qa, b.endpoint(qb), {.sq_psn = 1, .rq_psn = 2});
    b.connect(qb, a.endpoint(qa), {.sq_psn = 2, .rq_psn = 1});
  }
  void settle(Duration time = Duration(0)) {
    a.advance(time);
    b.advance(time);
    a.settle();
  }
  SendWr to_b(std::uint64_t wr_id, abi::Opcode opcode, std::uint32_t bytes) const {
    return {.wr_id = wr_id,
            .opcode = opcode,
            .sges = {ma.sge(0, bytes)},
            .remote_addr = mb.start,
            .rkey = mb.key};
  }

  TestAdapter a{51};
  TestAdapter b{52};
  TestCq ca = a.make_cq();
  TestCq cb = b.make_cq();
  TestMr ma = a.make_mr(1u << 20);
  TestMr mb = b.make_mr(1u << 20);
  TestQp qa = a.make_qp(ca, ca);
  TestQp qb = b.make_qp(cb, cb);
};

TEST_F(TwoEngines, SmallWorkHappensInsideTheDoorbell) {
  constexpr std::uint32_t kBytes = 200'000;
  a.fill(ma, 0, kBytes, 1);
  a.set_word(ma, 700'000, 0);
  b.receive(qb, {.wr_id = 50, .sges = {mb.sge(0, 64)}});
  a.post(qa, to_b(1, abi::Opcode::kRdmaWrite, kBytes));
  a.post(qa, to_b(2, abi::Opcode::kSend, 64));
  SendWr add = to_b(3, abi::Opcode::kAtomicFetchAndAdd, 8);
  add.sges = {ma.sge(700'000, 8)};
  add.remote_addr += 700'000;
  add.compare_add = 9;
  a.post(qa, add);
  a.ring(qa);
  EXPECT_THAT(a.poll(ca), ElementsAre(Completion{1}, Completion{2}, Completion{3}));
  EXPECT_THAT(b.poll(cb), ElementsAre(Completion{50}));
  EXPECT_EQ(b.bytes(mb, 0, kBytes), TestAdapter::pattern_bytes(kBytes, 1));
  EXPECT_EQ(b.word(mb, 700'000), 9u);
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
}

TEST_F(TwoEngines, AReceivePostedDuringThePauseIsFound) {
  a.send(qa, to_b(1, abi::Opcode::kSend, 64));
  settle(kRnrDelay / 2);
  b.receive(qb, {.wr_id = 50, .sges = {mb.sge(0, 64)}});
  EXPECT_THAT(a.poll(ca), IsEmpty());
  settle(kRnrDelay);
  EXPECT_THAT(a.poll(ca), ElementsAre(Completion{1}));
  EXPECT_THAT(b.poll(cb), ElementsAre(Completion{50}));
}

TEST_F(TwoEngines, AnAccessErrorEndsBothQps) {
  SendWr bad = to_b(1, abi::Opcode::kRdmaWrite, 64);
  bad.rkey ^= 1;
  a.post(qa, bad);
  a.post(qa, to_b(2, abi::Opcode::kRdmaWrite, 64));
  b.receive(qb, {.wr_id = 50, .sges = {mb.sge(0, 64)}});
  a.ring(qa);
  settle();
  EXPECT_THAT(a.poll(ca), ElementsAre(Completion{1, CompletionStatus::kRemoteAccess},
                                      Completion{2, CompletionStatus::kFlushed}));
  EXPECT_THAT(b.poll(cb), ElementsAre(Completion{50, CompletionStatus::kFlushed}));
  EXPECT_THAT(b.events.async, ElementsAre(Event{EventType::kQpAccessErr, qb.handle.value}));
}

TEST_F(TwoEngines, APeerThatDiesLeavesRetryExceeded) {
  ASSERT_TRUE(b.engine.destroy_qp(qb.handle, b.now));
  a.send(qa, to_b(1, abi::Opcode::kRdmaWrite, 64));
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(a.poll(ca), IsEmpty());
    settle(kAckTimeout);
  }
  EXPECT_THAT(a.poll(ca), ElementsAre(Completion{1, CompletionStatus::kRetryExceeded}));
}

TEST_F(TwoEngines, BothDirectionsAtOnce) {
  for (int round = 0; round < 100; ++round) {
    b.receive(qb, {.wr_id = 1, .sges = {mb.sge(0, 64)}});
    a.receive(qa, {.wr_id = 2, .sges = {ma.sge(0, 64)}});
    a.send(qa, to_b(3, abi::Opcode::kSend, 64));
    b.send(qb, {.wr_id = 4, .opcode = abi::Opcode::kSend, .sges = {mb.sge(0, 64)}});
    ASSERT_THAT(a.poll(ca), ElementsAre(Completion{3}, Completion{2}));
    ASSERT_THAT(b.poll(cb), ElementsAre(Completion{1}, Completion{4}));
  }
}

}  // namespace
}  // namespace pvrdma::verbs
