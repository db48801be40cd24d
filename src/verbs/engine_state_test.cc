// Saving and loading an engine (ADR 16): a loaded engine continues whatever the saved one was doing, and an
// invalid state is refused as a whole.
#include "state/reader.h"
#include "state/writer.h"
#include "support/load_engine.h"
#include "support/saved_stream.h"
#include "verbs/connected_qp_fixture.h"
#include "verbs/describe.h"
#include "verbs/print_state.h"

namespace pvrdma::verbs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using test::changed;
using test::for_each_flip;
using Bytes = test::SavedBytes;

template <typename Saved>
constexpr state::RecordKind kRecordOf{};
template <>
constexpr state::RecordKind kRecordOf<SavedTables> = kTablesRecord;
template <>
constexpr state::RecordKind kRecordOf<SavedPd> = kPdRecord;
template <>
constexpr state::RecordKind kRecordOf<SavedMrSlots> = kMrSlotsRecord;
template <>
constexpr state::RecordKind kRecordOf<SavedMr> = kMrRecord;
template <>
constexpr state::RecordKind kRecordOf<SavedCq> = kCqRecord;
template <>
constexpr state::RecordKind kRecordOf<SavedSrq> = kSrqRecord;
template <>
constexpr state::RecordKind kRecordOf<SavedQp> = kQpRecord;
template <>
constexpr state::RecordKind kRecordOf<SavedGid> = kGidRecord;
template <>
constexpr state::RecordKind kRecordOf<SavedCounts> = kEngineEndRecord;

Bytes save(const Engine& engine, Instant now) {
  state::Writer writer;
  engine.save(writer, now);
  return writer.finish();
}

// The engine of another daemon for the same guest.
struct Successor {
  explicit Successor(TestAdapter& adapter, const Budgets& budgets = Budgets::none())
      : account(budgets), engine(Limits{}, Rules{}, adapter.memory.space(), events, wire, account) {}

  std::string load(const Bytes& stream, Instant now) {
    state::Reader reader(stream);
    const Result<> loaded = test::load_engine(engine, reader, now);
    return loaded ? "" : loaded.error().message;
  }
  bool is_empty() const {
    const Engine::ObjectCounts counts = engine.object_counts();
    return counts.contexts + counts.pds + counts.mrs + counts.cqs + counts.qps + counts.srqs == 0 &&
           engine.gids().at(0) == nullptr && engine.counters().tx_messages == 0;
  }

  ScriptedWire wire;
  RecordingEvents events;
  Account account;
  Engine engine;
};

// The QP of the kernel, which may have objects of all kinds.
class EngineState : public ConnectedQp {
 protected:
  EngineState() : ConnectedQp(0) {}

  Bytes saved() { return save(a.engine, a.now); }

  // Creates unanswered requests, a half-received message, objects of all kinds, and gaps where objects were
  // destroyed.
  void live_a_little() {
    const TestSrq srq = a.make_srq(16, 4);
    a.make_qp(send_cq, recv_cq, {.srq = &srq});
    a.make_qp(send_cq, recv_cq, {.type = abi::QpType::kUd});
    a.make_qp(send_cq, recv_cq, {.type = abi::QpType::kGsi});
    const TestQp gone = a.make_qp(send_cq, recv_cq);
    ASSERT_TRUE(a.engine.destroy_qp(gone.handle, a.now));
    ASSERT_TRUE(a.engine.create_context(3));
    ASSERT_TRUE(a.engine.create_pd(ContextHandle(3)));
    ASSERT_TRUE(a.engine.create_mr({.kind = MrKind::kDma, .pd = a.pd}));
    ASSERT_TRUE(a.engine.create_mr({.kind = MrKind::kFastRegister, .pd = a.pd, .page_count = 8}));
    const TestMr mr_gone = a.make_mr(4096);
    ASSERT_TRUE(a.engine.destroy_mr(mr_gone.handle));
    a.engine.arm_cq(0, recv_cq.handle, CompletionQueue::Arm::kSolicited);
    a.receive(qp, receive_of(7, 0, 4096));
    Request first = request(RequestOp::kSend, kRqPsn, 4096);
    first.bytes = 1024;
    ask_filled(first);
    a.send(qp, write(1, 5000));
    a.send(qp, read(2, 5000));
    a.send(qp, fetch_add(3));
    ASSERT_THAT(sent(), SizeIs(3));
  }
};

TEST_F(EngineState, AnEngineWithoutObjectsIsSavedAndLoaded) {
  a.engine.reset();
  Successor b(a);
  EXPECT_EQ(b.load(saved(), a.now), "");
  EXPECT_TRUE(b.is_empty());
}

TEST_F(EngineState, ALoadedEngineIsSavedAsTheSameBytes) {
  live_a_little();
  const Bytes stream = saved();
  Successor b(a);
  ASSERT_EQ(b.load(stream, a.now), "");
  EXPECT_EQ(save(b.engine, a.now), stream);
  EXPECT_EQ(b.engine.object_counts().qps, 4u);
  EXPECT_EQ(b.account.use(Budget::kRegistered).use, a.account.use(Budget::kRegistered).use);
  EXPECT_EQ(b.account.use(Budget::kRings).use, a.account.use(Budget::kRings).use);
  EXPECT_NE(b.engine.gids().at(0), nullptr);
}

TEST_F(EngineState, ItGivesTheNumbersThatWouldHaveComeNext) {
  live_a_little();
  Successor b(a);
  ASSERT_EQ(b.load(saved(), a.now), "");
  const auto numbers = [this](Engine& engine) {
    std::vector<std::uint32_t> out;
    const auto pages = a.memory.object(1);
    for (int i = 0; i < 3; ++i) {
      out.push_back(engine.create_pd(kKernelContext)->value);
      out.push_back(engine
                        .create_mr({.kind = MrKind::kUser,
                                    .pd = a.pd,
                                    .start = 0,
                                    .length = 4096,
                                    .page_count = 1,
                                    .page_directory = pages.directory})
                        ->key);
    }
    return out;
  };
  EXPECT_EQ(numbers(a.engine), numbers(b.engine));
}

TEST_F(EngineState, WhatWasUnderWayIsAnsweredToTheSuccessor) {
  a.send(qp, write(1, 64));
  a.send(qp, read(2, 64));
  Successor b(a);
  ASSERT_EQ(b.load(saved(), a.now), "");
  a.engine.reset();

  const Endpoint local = {a.gid, qp.qpn};
  TestPayload nothing;
  b.engine.on_response({.from = kPeer,
                        .to = local,
                        .number = MessageNumber(kSqPsn),
                        .syndrome = Syndrome::kAck,
                        .op = RequestOp::kWrite},
                       nothing, a.now);
  TestPayload data(TestAdapter::pattern_bytes(64, 9));
  b.engine.on_response({.from = kPeer,
                        .to = local,
                        .number = MessageNumber(kSqPsn + 1),
                        .syndrome = Syndrome::kAck,
                        .op = RequestOp::kRead,
                        .bytes = 64},
                       data, a.now);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}));
  EXPECT_EQ(a.bytes(mr, 0, 64), TestAdapter::pattern_bytes(64, 9));
}

// A path that carries packets must know the connections that it serves. The path opened before the VM arrived
// led nowhere, and a QP that only answers sends nothing that would open another one.
TEST_F(EngineState, WhoOnlyAnswersHasAPathWhenItIsRestored) {
  Successor b(a);
  b.wire.leads_somewhere = false;
  ASSERT_EQ(b.load(saved(), a.now), "");
  EXPECT_THAT(b.wire.opened, SizeIs(1));
  b.engine.on_all_paths_restored(a.now);
  EXPECT_THAT(b.wire.opened, SizeIs(1)) << "it is the same one";
  b.wire.leads_somewhere = true;
  ++b.wire.generation;
  b.engine.on_all_paths_restored(a.now);
  EXPECT_THAT(b.wire.opened, SizeIs(2));
  ++b.wire.generation;
  b.engine.on_all_paths_restored(a.now);
  EXPECT_THAT(b.wire.opened, SizeIs(2)) << "what it sends opens another one";
}

TEST_F(EngineState, WhatIsNotAnsweredGoesOutAgain) {
  a.send(qp, write(1, 64));
  Successor b(a);
  ASSERT_EQ(b.load(saved(), a.now), "");
  EXPECT_THAT(b.wire.opened, SizeIs(1));
  EXPECT_THAT(b.wire.requests, IsEmpty());
  b.engine.on_all_paths_restored(a.now);
  b.engine.run(a.now);
  ASSERT_THAT(b.wire.requests, SizeIs(1));
  EXPECT_EQ(b.wire.requests[0].message.number.value, kSqPsn);
}

TEST_F(EngineState, WorkThatNobodyHasLookedAtIsFound) {
  a.post(qp, write(1, 64));
  Successor b(a);
  ASSERT_EQ(b.load(saved(), a.now), "");
  b.engine.run(a.now);
  EXPECT_THAT(b.wire.requests, SizeIs(1));
}

TEST_F(EngineState, TimeThatIsLeftIsLeftOnAnotherClock) {
  a.send(qp, write(1, 64));
  a.now = a.now + kAckTimeout / 4;
  const Bytes stream = saved();
  Successor b(a);
  const Instant there{std::chrono::hours(50)};
  ASSERT_EQ(b.load(stream, there), "");
  b.engine.run(there);
  EXPECT_EQ(b.engine.next_deadline(), there + (kAckTimeout - kAckTimeout / 4));
}

TEST_F(EngineState, APauseThatThePeerOrderedIsKept) {
  a.send(qp, send_wr(1));
  nak(kSqPsn, Syndrome::kRnrNak);
  Successor b(a);
  ASSERT_EQ(b.load(saved(), a.now), "");
  b.engine.run(a.now);
  EXPECT_THAT(b.wire.requests, IsEmpty());
  b.engine.on_time(a.now + kRnrDelay);
  b.engine.run(a.now + kRnrDelay);
  EXPECT_THAT(b.wire.requests, SizeIs(1));
}

TEST_F(EngineState, AnAtomicAskedForAgainIsAnsweredFromMemory) {
  a.set_word(mr, 0, 40);
  Request add = request(RequestOp::kFetchAdd, kRqPsn, 8);
  add.compare_add = 2;
  ask(add);
  Successor b(a);
  ASSERT_EQ(b.load(saved(), a.now), "");
  TestPayload nothing;
  b.engine.on_request(add, nothing, a.now);
  ASSERT_THAT(b.wire.responses, SizeIs(1));
  EXPECT_EQ(b.wire.responses[0].message.atomic_original, 40u);
  EXPECT_EQ(a.word(mr, 0), 42u);
}

TEST_F(EngineState, AMessageThatHasHalfArrivedGoesOn) {
  a.receive(qp, receive_of(7, 0, 4096));
  Request piece = request(RequestOp::kSend, kRqPsn, 4096);
  piece.bytes = 1024;
  ask_filled(piece);
  Successor b(a);
  ASSERT_EQ(b.load(saved(), a.now), "");
  piece.offset = 1024;
  piece.bytes = 3072;
  TestPayload rest(TestAdapter::pattern_bytes(3072, 2));
  b.engine.on_request(piece, rest, a.now);
  EXPECT_THAT(receives_done(), ElementsAre(Completion{7}));
  EXPECT_EQ(a.bytes(mr, 1024, 3072), TestAdapter::pattern_bytes(3072, 2));
}

TEST_F(EngineState, AQpThatIsAboutToFlushGoesOnToDoSo) {
  SendWr bad = write(1);
  bad.sges[0].lkey = 0x1234;
  a.post(qp, bad);
  a.post(qp, write(2));
  a.ring(qp);
  const Bytes stream = saved();
  Successor b(a);
  ASSERT_EQ(b.load(stream, a.now), "");
  EXPECT_EQ(save(b.engine, a.now), stream);
  while (b.engine.run(a.now)) {
  }
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, abi::CompletionStatus::kLocalProtection},
                                        Completion{2, abi::CompletionStatus::kFlushed}));
}

TEST_F(EngineState, PagesNeedNotBeMappedYet) {
  const Bytes stream = saved();
  guestmem::AddressSpace nothing;
  Successor b(a);
  Engine engine(Limits{}, Rules{}, nothing, b.events, b.wire, b.account);
  state::Reader reader(stream);
  EXPECT_TRUE(test::load_engine(engine, reader, a.now));
}

// --- Refusals ---

TEST_F(EngineState, CutOffAnywhereItIsRefusedAndNothingIsLeft) {
  live_a_little();
  const Bytes stream = saved();
  Successor b(a);
  std::size_t at = 0;
  for (; at + 1 < stream.size(); at += 7) {
    const Bytes part(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(at));
    state::Reader reader(part);
    // A stream that ends behind the engine's last record is complete.
    if (test::load_engine(b.engine, reader, a.now)) break;
    ASSERT_TRUE(b.is_empty()) << at;
  }
  EXPECT_GT(at, stream.size() - 40);
}

TEST_F(EngineState, WhateverByteIsWrongItIsRefusedAsAWholeOrPossible) {
  live_a_little();
  std::uint32_t refused = 0;
  for_each_flip(saved(), [&](const Bytes& stream) {
    Successor b(a);
    if (b.load(stream, a.now).empty()) {
      EXPECT_EQ(b.engine.object_counts().qps, 4u);
      b.engine.reset();
      return;
    }
    ++refused;
    ASSERT_TRUE(b.is_empty());
    while (b.engine.run(a.now)) {  // frees what the failed load had built
    }
    ASSERT_EQ(b.account.use(Budget::kQps).use + b.account.use(Budget::kMrs).use, 0u);
  });
  EXPECT_GT(refused, 1000u);
}

TEST_F(EngineState, ABudgetThatIsUsedUpRefusesIt) {
  live_a_little();
  Budgets budgets = Budgets::none();
  budgets.qps = 3;
  Successor b(a, budgets);
  EXPECT_THAT(b.load(saved(), a.now), HasSubstr("the budget of QPs is used up"));
  EXPECT_TRUE(b.is_empty());
  b.engine.run(a.now);
  EXPECT_EQ(b.account.use(Budget::kQps).use, 0u);
}

TEST_F(EngineState, AnEngineThatRefusedOneStateLoadsAnother) {
  live_a_little();
  Bytes cut = saved();
  cut.resize(cut.size() / 2);
  Successor b(a);
  EXPECT_THAT(b.load(cut, a.now), Not(IsEmpty()));
  EXPECT_EQ(b.load(saved(), a.now), "");
  EXPECT_EQ(save(b.engine, a.now), saved());
}

// Values that a hostile host could send, each in a state of its own.
TEST_F(EngineState, ImpossibleValuesAreRefused) {
  live_a_little();
  const Bytes good = saved();
  const auto fault = [&]<typename Saved>(void (*change)(Saved&)) {
    Successor b(a);
    const std::string why = b.load(changed<Saved>(good, kRecordOf<Saved>, change), a.now);
    EXPECT_TRUE(b.is_empty());
    return why;
  };
  // Changes the saved QP that has work requests.
  const auto qp_fault = [&](void (*change)(SavedQp&)) {
    Successor b(a);
    return b.load(changed<SavedQp>(good, kRecordOf<SavedQp>,
                                   [change](SavedQp& one) {
                                     if (one.works.size() == 3) change(one);
                                   }),
                  a.now);
  };
  ASSERT_EQ(qp_fault(+[](SavedQp&) {}), "");

  EXPECT_THAT(fault(+[](SavedTables& t) { t.contexts = {0}; }),
              HasSubstr("a context is invalid or is named twice"));
  EXPECT_THAT(fault(+[](SavedTables& t) {
                t.contexts = {3, 3};
              }),
              HasSubstr("a context is invalid or is named twice"));
  EXPECT_THAT(fault(+[](SavedTables& t) { t.next_cq = 1u << 30; }), HasSubstr("more objects"));
  EXPECT_THAT(fault(+[](SavedPd& p) { p.context = ContextHandle(9); }),
              HasSubstr("a PD's handle or context is invalid"));
  EXPECT_THAT(fault(+[](SavedPd& p) { p.handle = PdHandle(0); }),
              HasSubstr("a PD's handle or context is invalid"));
  EXPECT_THAT(fault(+[](SavedMrSlots& s) { s.generations.resize(1); }),
              HasSubstr("slots of memory regions are invalid"));
  EXPECT_THAT(fault(+[](SavedMrSlots& s) { s.free.push_back(s.free[0]); }),
              HasSubstr("slots of memory regions are invalid"));
  EXPECT_THAT(fault(+[](SavedMrSlots& s) { s.free = {1}; }), HasSubstr("records are missing"));
  EXPECT_THAT(fault(+[](SavedMr& m) { m.pd = PdHandle(2); }), HasSubstr("a memory region is invalid"));
  EXPECT_THAT(fault(+[](SavedMr& m) { m.key ^= 1; }), HasSubstr("a memory region is invalid"));
  EXPECT_THAT(fault(+[](SavedMr& m) { m.key += 1u << 26; }), HasSubstr("a memory region is invalid"));
  EXPECT_THAT(fault(+[](SavedMr& m) { m.access_flags |= 0x80; }), HasSubstr("a memory region is invalid"));
  EXPECT_THAT(fault(+[](SavedMr& m) { m.length += 4096; }), HasSubstr("a memory region is invalid"));
  EXPECT_THAT(fault(+[](SavedCq& c) { c.context = ContextHandle(9); }),
              HasSubstr("a CQ's handle or context is invalid"));
  EXPECT_THAT(fault(+[](SavedCq& c) { c.cqe_count = 3; }), HasSubstr("a CQ's values"));
  EXPECT_THAT(fault(+[](SavedCq& c) { c.ring.own_index = 2 * c.cqe_count; }), HasSubstr("a CQ's values"));
  EXPECT_THAT(fault(+[](SavedCq& c) { c.ring.pages.pop_back(); }), HasSubstr("a CQ's values"));
  EXPECT_THAT(fault(+[](SavedSrq& s) { s.limit = s.max_wr + 1; }), HasSubstr("an SRQ's values"));
  EXPECT_THAT(fault(+[](SavedGid& g) { g.gid = Gid{}; }), HasSubstr("a GID cannot be bound"));
  EXPECT_THAT(fault(+[](SavedGid& g) { g.index = 1u << 20; }), HasSubstr("a GID cannot be bound"));
  EXPECT_THAT(fault(+[](SavedCounts& c) { ++c.mrs; }), HasSubstr("records are missing"));

  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.identity.handle = QpHandle(60'000); }),
              HasSubstr("handle or number is invalid"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.identity.qpn = Qpn(q.identity.qpn.value + (1u << 16)); }),
              HasSubstr("handle or number is invalid"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.identity.type = abi::QpType::kUc; }),
              HasSubstr("objects or sizes"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.identity.pd = PdHandle(2); }), HasSubstr("objects or sizes"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.send_cq = CqHandle(99); }), HasSubstr("objects or sizes"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.identity.cap.max_send_sge = 30; }), HasSubstr("objects or sizes"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.charged_pages = 1; }), HasSubstr("objects or sizes"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.send_ring.pages.pop_back(); }), HasSubstr("objects or sizes"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.receive_ring.pages.pop_back(); }), HasSubstr("rings are invalid"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.attributes.max_rd_atomic = 17; }), HasSubstr("more reads"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.local_gid = Gid{}; }), HasSubstr("without an address"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.attributes.state = abi::QpState::kSqe; }),
              HasSubstr("cannot be in this state"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.receive.receive.sge_count = 4; }), HasSubstr("more SGEs"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.send.sending += 4; }), HasSubstr("send next is out of range"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.window_head -= 1; }), HasSubstr("send next is out of range"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works.resize(40, q.works[0]); }), HasSubstr("room for"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[0].state.opcode = abi::Opcode::kLso; }),
              HasSubstr("may not post"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[0].sges[0].length += 1; }),
              HasSubstr("does not match its opcode"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[0].sges.resize(4); }), HasSubstr("too long"));
  EXPECT_THAT(
      qp_fault(+[](SavedQp& q) { q.works[0].state.length = q.works[0].sges[0].length = (1u << 30) + 1; }),
      HasSubstr("too long"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[2].state.length = q.works[2].sges[0].length = 16; }),
              HasSubstr("does not match its opcode"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[0].state.sent = 4999; }), HasSubstr("only in part"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[0].state.started = false; }), HasSubstr("only in part"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[0].state.state = SendWorkState::State::kDone; }),
              HasSubstr("executed only in part"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[0].state.state = SendWorkState::State::kQueued; }),
              HasSubstr("nothing left to send"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[0].state.state = SendWorkState::State::kFailed; }),
              HasSubstr("status success"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[1].state.number = MessageNumber(kSqPsn); }),
              HasSubstr("out of order"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.works[1].state.psn = Psn(kSqPsn); }), HasSubstr("out of order"));
  EXPECT_THAT(qp_fault(+[](SavedQp& q) { q.send.next_number = MessageNumber(0); }),
              HasSubstr("out of order"));
}

// A restored QP of a user process must not gain the kernel's rights.
TEST(EngineStateOfUsers, MayNotRegisterOrPostWhatIsTheKernels) {
  TestAdapter a(51);
  TestCq cq = a.make_cq();
  TestQp qp = a.make_qp(cq, cq);
  const TestMr mr = a.make_mr(4096);
  a.connect(qp, kPeer);
  a.send(qp, {.wr_id = 1, .sges = {mr.sge(0, 64)}});
  const Bytes good = save(a.engine, a.now);
  Successor b(a);
  EXPECT_THAT(b.load(changed<SavedQp>(good, kRecordOf<SavedQp>,
                                      [](SavedQp& q) {
                                        SendWorkState& work = q.works.at(0).state;
                                        work.opcode = abi::Opcode::kFastRegMr;
                                        work.length = work.sent = 0;
                                        work.state = SendWorkState::State::kQueued;
                                        q.works[0].sges.clear();
                                      }),
                     a.now),
              HasSubstr("may not post"));
  EXPECT_THAT(b.load(changed<SavedMr>(good, kRecordOf<SavedMr>,
                                      [](SavedMr& m) {
                                        m.kind = MrKind::kDma;
                                        m.access_flags = 0;
                                        m.length = m.start = 0;
                                        m.pages.clear();
                                      }),
                     a.now),
              HasSubstr("a memory region is invalid"));
  EXPECT_EQ(b.load(good, a.now), "");
}

TEST_F(EngineState, IsPrintedFieldByField) {
  live_a_little();
  const std::string text = print_state(saved());
  EXPECT_THAT(text, HasSubstr("record 7 version 1: QP\n  qpn "));
  EXPECT_THAT(text, HasSubstr("  works[2]\n  wr_id 3\n"));
  EXPECT_THAT(text, HasSubstr("  qps 4\n"));
  EXPECT_THAT(text, Not(HasSubstr("refused")));
  Bytes cut = saved();
  cut.resize(cut.size() - 1);
  EXPECT_THAT(print_state(cut), HasSubstr("the saved state is refused"));
}

}  // namespace
}  // namespace pvrdma::verbs
