// The receive side of an RC QP: what requests do to guest memory, and how they are answered.
#include "verbs/connected_qp_fixture.h"
#include "verbs/queue_pair.h"

namespace pvrdma::verbs {
namespace {

using abi::CompletionStatus;
using abi::EventType;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Event = RecordingEvents::Event;

class ResponderTest : public ConnectedQp {
 protected:
  explicit ResponderTest(UarIndex uar = 1) : ConnectedQp(uar) {}

  ReceiveWr receive_of(std::uint64_t wr_id, std::uint64_t offset, std::uint32_t bytes) const {
    return {.wr_id = wr_id, .sges = {mr.sge(offset, bytes)}};
  }
  // The one answer sent since the last call.
  Response answered() {
    auto all = answers();
    EXPECT_THAT(all, SizeIs(1));
    return all.empty() ? Response{} : all[0].message;
  }
  void expect_failed(Syndrome syndrome, std::vector<Event> events) {
    EXPECT_EQ(answered().syndrome, syndrome);
    EXPECT_EQ(a.state(qp), abi::QpState::kErr);
    EXPECT_EQ(a.events.async, events);
    EXPECT_THAT(a.events.failures, SizeIs(1));
  }
  Event event(EventType type) const { return {type, qp.handle.value}; }
};

TEST_F(ResponderTest, AWriteLandsInMemoryAndIsAcked) {
  ask_filled(request(RequestOp::kWrite, kRqPsn, 100), 5);
  EXPECT_EQ(a.bytes(mr, 0, 100), TestAdapter::pattern_bytes(100, 5));
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kAck);
  EXPECT_EQ(response.psn, Psn(kRqPsn));
  EXPECT_EQ(response.from, a.endpoint(qp));
  EXPECT_EQ(response.to, kPeer);
  EXPECT_THAT(receives_done(), IsEmpty());
  EXPECT_EQ(a.engine.counters().rx_messages, 1u);
  EXPECT_EQ(a.engine.counters().rx_bytes, 100u);
}

TEST_F(ResponderTest, ASendFillsTheOldestReceive) {
  a.receive(qp, {.wr_id = 8, .sges = {mr.sge(5000, 10), mr.sge(0, 100)}});
  a.receive(qp, receive_of(9, 0, 0));
  ask_filled(request(RequestOp::kSend, kRqPsn, 30), 2);
  const auto sent_bytes = TestAdapter::pattern_bytes(30, 2);
  EXPECT_EQ(a.bytes(mr, 5000, 10), std::vector(sent_bytes.begin(), sent_bytes.begin() + 10));
  EXPECT_EQ(a.bytes(mr, 0, 20), std::vector(sent_bytes.begin() + 10, sent_bytes.end()));
  const auto cqes = a.poll_cqes(recv_cq);
  ASSERT_THAT(cqes, SizeIs(1));
  EXPECT_EQ(cqes[0].wr_id, 8u);
  EXPECT_EQ(cqes[0].qp, qp.handle.value);
  EXPECT_EQ(cqes[0].opcode, 0x80u);
  EXPECT_EQ(cqes[0].byte_len, 30u);
  EXPECT_EQ(cqes[0].wc_flags, 0u);
  ask(request(RequestOp::kSend, kRqPsn + 1));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{9}));
}

TEST_F(ResponderTest, ImmediateDataArrivesUnchanged) {
  a.receive(qp, receive_of(1, 0, 64));
  a.receive(qp, receive_of(2, 0, 64));
  Request send = request(RequestOp::kSend, kRqPsn, 8);
  send.extra = Extra::kImmediate;
  send.extra_value = 0xa1b2'c3d4;
  ask_filled(send);
  Request write = request(RequestOp::kWrite, kRqPsn + 1, 8);
  write.extra = Extra::kImmediate;
  write.extra_value = 0x0102'0304;
  ask_filled(write);
  const auto cqes = a.poll_cqes(recv_cq);
  ASSERT_THAT(cqes, SizeIs(2));
  EXPECT_EQ(cqes[0].imm_data.raw, 0xa1b2'c3d4u);
  EXPECT_EQ(cqes[0].wc_flags, abi::kWcWithImm);
  EXPECT_EQ(cqes[1].imm_data.raw, 0x0102'0304u);
  EXPECT_EQ(cqes[1].opcode, 0x81u);
  EXPECT_EQ(cqes[1].byte_len, 8u);
}

TEST_F(ResponderTest, OnlySolicitedMessagesWakeASolicitedConsumer) {
  for (std::uint64_t i = 0; i < 2; ++i) a.receive(qp, receive_of(i, 0, 64));
  a.engine.arm_cq(1, recv_cq.handle, CompletionQueue::Arm::kSolicited);
  ask(request(RequestOp::kSend, kRqPsn));
  EXPECT_THAT(a.events.completions, IsEmpty());
  Request solicited = request(RequestOp::kSend, kRqPsn + 1);
  solicited.solicited = true;
  ask(solicited);
  EXPECT_THAT(a.events.completions, ElementsAre(recv_cq.handle));
}

TEST_F(ResponderTest, SegmentsOfOneMessageAreAckedOnce) {
  constexpr std::uint32_t kBytes = kSegmentBytesMax + 50;
  a.receive(qp, receive_of(1, 0, kBytes));
  const auto data = TestAdapter::pattern_bytes(kBytes, 3);
  Request segment = request(RequestOp::kSend, kRqPsn, kBytes);
  segment.bytes = kSegmentBytesMax;
  ask(segment, {data.begin(), data.begin() + kSegmentBytesMax});
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_THAT(receives_done(), IsEmpty());
  segment.offset = kSegmentBytesMax;
  segment.bytes = 50;
  ask(segment, {data.begin() + kSegmentBytesMax, data.end()});
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.bytes(mr, 0, kBytes), data);
}

TEST_F(ResponderTest, AReadIsAnsweredWithData) {
  a.fill(mr, 64, 200, 6);
  Request read = request(RequestOp::kRead, kRqPsn, 200);
  read.remote_addr += 64;
  ask(read);
  const auto all = answers();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].message.syndrome, Syndrome::kAck);
  EXPECT_EQ(all[0].message.op, RequestOp::kRead);
  EXPECT_EQ(all[0].message.bytes, 200u);
  EXPECT_EQ(all[0].payload, TestAdapter::pattern_bytes(200, 6));
  EXPECT_EQ(a.engine.counters().read_bytes_served, 200u);
}

TEST_F(ResponderTest, AtomicsReturnTheOldValue) {
  a.set_word(mr, 0, 40);
  Request add = request(RequestOp::kFetchAdd, kRqPsn, 8);
  add.compare_add = 2;
  ask(add);
  EXPECT_EQ(answered().atomic_original, 40u);
  EXPECT_EQ(a.word(mr, 0), 42u);

  Request swap = request(RequestOp::kCompareSwap, kRqPsn + 1, 8);
  swap.compare_add = 42;
  swap.swap = 7;
  ask(swap);
  EXPECT_EQ(answered().atomic_original, 42u);
  EXPECT_EQ(a.word(mr, 0), 7u);

  swap.psn = Psn(kRqPsn + 2);
  ask(swap);  // does not match any more
  EXPECT_EQ(answered().atomic_original, 7u);
  EXPECT_EQ(a.word(mr, 0), 7u);
}

// --- Exactly once ---

TEST_F(ResponderTest, ADuplicateIsAckedAgainButNotExecuted) {
  a.receive(qp, receive_of(1, 0, 64));
  a.receive(qp, receive_of(2, 0, 64));
  ask_filled(request(RequestOp::kSend, kRqPsn, 16), 1);
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 16), 2);
  answers();
  a.fill(mr, 0, 16, 9);
  ask_filled(request(RequestOp::kSend, kRqPsn, 16), 1);
  EXPECT_EQ(answered().psn, Psn(kRqPsn + 1)) << "acks cumulatively";
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 16), 2);
  EXPECT_EQ(answered().psn, Psn(kRqPsn + 1));
  EXPECT_EQ(a.bytes(mr, 0, 16), TestAdapter::pattern_bytes(16, 9));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.engine.counters().duplicates, 2u);
}

TEST_F(ResponderTest, AnAtomicIsExecutedOnceHoweverOftenItComes) {
  for (std::uint32_t i = 0; i < kAtomicReplays; ++i) {
    Request add = request(RequestOp::kFetchAdd, kRqPsn + i, 8);
    add.compare_add = 1;
    ask(add);
  }
  answers();
  for (std::uint32_t i = 0; i < kAtomicReplays; ++i) {
    Request add = request(RequestOp::kFetchAdd, kRqPsn + i, 8);
    add.compare_add = 1;
    ask(add);
    const Response response = answered();
    EXPECT_EQ(response.psn, Psn(kRqPsn + i));
    EXPECT_EQ(response.atomic_original, i);
  }
  EXPECT_EQ(a.word(mr, 0), kAtomicReplays);
}

TEST_F(ResponderTest, AReadIsServedAgainFromAnyPieceOn) {
  Request read = request(RequestOp::kRead, kRqPsn, 3 * kSegmentBytesMax);
  read.bytes = kSegmentBytesMax;
  for (const std::uint32_t piece : {0u, 1u, 1u, 0u, 2u, 1u}) {
    read.offset = piece * kSegmentBytesMax;
    ask(read);
    EXPECT_EQ(answered().offset, read.offset);
  }
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 8));
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
}

TEST_F(ResponderTest, AGapIsReportedOnce) {
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 8), 1);
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kNakSequence);
  EXPECT_EQ(response.psn, Psn(kRqPsn));
  EXPECT_EQ(response.offset, 0u);
  ask_filled(request(RequestOp::kWrite, kRqPsn + 2, 8), 2);
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_EQ(a.bytes(mr, 0, 8), std::vector<std::byte>(8));

  ask_filled(request(RequestOp::kWrite, kRqPsn, 8), 3);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  ask_filled(request(RequestOp::kWrite, kRqPsn + 2, 8), 2);
  EXPECT_EQ(answered().syndrome, Syndrome::kNakSequence) << "a new gap";
  EXPECT_EQ(a.engine.counters().sequence_naks_sent, 2u);
}

TEST_F(ResponderTest, AGapWithinAMessageNamesItsPlace) {
  Request segment = request(RequestOp::kWrite, kRqPsn, 3 * 100);
  segment.bytes = 100;
  ask_filled(segment);
  segment.offset = 200;
  ask_filled(segment);
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kNakSequence);
  EXPECT_EQ(response.psn, Psn(kRqPsn));
  EXPECT_EQ(response.offset, 100u);
}

TEST_F(ResponderTest, SequenceNumbersWrap) {
  a.reset(qp);
  a.connect(qp, kPeer, {.rq_psn = Psn::kMask});
  ask_filled(request(RequestOp::kWrite, Psn::kMask, 8));
  ask_filled(request(RequestOp::kWrite, 0, 8));
  ask_filled(request(RequestOp::kWrite, Psn::kMask, 8));
  const auto all = answers();
  ASSERT_THAT(all, SizeIs(3));
  EXPECT_EQ(all[2].message.psn, Psn(0));
  EXPECT_EQ(a.engine.counters().duplicates, 1u);
}

// --- Receiver not ready ---

TEST_F(ResponderTest, WithoutAReceiveThePeerIsToldWhenToComeBack) {
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kRnrNak);
  EXPECT_EQ(response.rnr_timer, 12);
  EXPECT_EQ(response.psn, Psn(kRqPsn));
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 8), 4);
  EXPECT_THAT(answers(), IsEmpty()) << "what was under way is dropped in silence";
  EXPECT_EQ(a.bytes(mr, 0, 8), std::vector<std::byte>(8));

  a.receive(qp, receive_of(1, 64, 64));
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 8), 4);
  EXPECT_THAT(answers(), SizeIs(2));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
}

TEST_F(ResponderTest, AWriteWithImmediateNeedsItsReceiveWithItsLastSegment) {
  Request segment = request(RequestOp::kWrite, kRqPsn, 200);
  segment.extra = Extra::kImmediate;
  segment.bytes = 100;
  ask_filled(segment, 1);
  EXPECT_THAT(answers(), IsEmpty());
  segment.offset = 100;
  ask_filled(segment, 2);
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kRnrNak);
  EXPECT_EQ(response.offset, 100u);
  a.receive(qp, receive_of(1, 0, 0));
  ask_filled(segment, 2);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_EQ(a.bytes(mr, 100, 100), TestAdapter::pattern_bytes(100, 2));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
}

// --- Refusals ---

TEST_F(ResponderTest, AReceiveTooShortEndsBothSides) {
  a.receive(qp, receive_of(1, 0, 10));
  a.receive(qp, receive_of(2, 0, 10));
  ask_filled(request(RequestOp::kSend, kRqPsn, 11));
  EXPECT_THAT(receives_done(),
              ElementsAre(Completion{1, CompletionStatus::kLocalLength}, Completion{2, CompletionStatus::kFlushed}));
  expect_failed(Syndrome::kNakInvalidRequest, {});
}

TEST_F(ResponderTest, AReceiveWithABadKeyEndsBothSides) {
  a.receive(qp, {.wr_id = 1, .sges = {{mr.start, 64, mr.key + 256}}});
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kLocalProtection}));
  expect_failed(Syndrome::kNakRemoteOperational, {});
}

TEST_F(ResponderTest, AReceiveIntoReadOnlyMemoryEndsBothSides) {
  const TestMr read_only = a.make_mr(4096, abi::kAccessRemoteRead);
  a.receive(qp, {.wr_id = 1, .sges = {read_only.sge(0, 64)}});
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kLocalProtection}));
}

TEST_F(ResponderTest, AReceiveWithTooManySgesEndsBothSides) {
  a.receive(qp, {.wr_id = 1, .sges = {mr.sge(0, 1), mr.sge(0, 1), mr.sge(0, 1), mr.sge(0, 1)}});
  ask_filled(request(RequestOp::kSend, kRqPsn, 1));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kLocalQpOperation}));
  expect_failed(Syndrome::kNakRemoteOperational, {});
}

struct RefusedCase {
  const char* name;
  RequestOp op;
  Syndrome syndrome;
  EventType event;
  void (*spoil)(Request& request, Connection& connection);
};

class RefusedRequest : public ResponderTest, public ::testing::WithParamInterface<RefusedCase> {};

TEST_P(RefusedRequest, IsNakedAndRaisesAnEvent) {
  Request asked = request(GetParam().op, kRqPsn, 8);
  Connection connection;
  GetParam().spoil(asked, connection);
  a.reset(qp);
  a.connect(qp, kPeer, connection);
  a.receive(qp, receive_of(1, 0, 64));
  asked.is_read_or_atomic() ? ask(asked) : ask_filled(asked);
  expect_failed(GetParam().syndrome, {event(GetParam().event)});
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kFlushed}));
  EXPECT_EQ(a.bytes(mr, 0, 16), std::vector<std::byte>(16));
}

constexpr auto kWrongKey = [](Request& r, Connection&) { r.rkey += 256; };
constexpr auto kTooLong = [](Request& r, Connection&) { r.remote_addr += kMrBytes - 4; };
constexpr auto kWraps = [](Request& r, Connection&) { r.remote_addr = UINT64_MAX - 3; };
constexpr auto kNotByQp = [](Request&, Connection& c) { c.access = abi::kAccessLocalWrite; };
constexpr auto kNoReads = [](Request&, Connection& c) { c.max_dest_rd_atomic = 0; };
constexpr auto kMisaligned = [](Request& r, Connection&) { r.remote_addr += 4; };
constexpr auto kBadSize = [](Request& r, Connection&) { r.bytes = r.message_bytes = 4; };

INSTANTIATE_TEST_SUITE_P(
    Responder, RefusedRequest,
    ::testing::Values(
        RefusedCase{"WriteKey", RequestOp::kWrite, Syndrome::kNakRemoteAccess, EventType::kQpAccessErr, kWrongKey},
        RefusedCase{"WriteBounds", RequestOp::kWrite, Syndrome::kNakRemoteAccess, EventType::kQpAccessErr, kTooLong},
        RefusedCase{"WriteWrap", RequestOp::kWrite, Syndrome::kNakRemoteAccess, EventType::kQpAccessErr, kWraps},
        RefusedCase{"WriteQpFlags", RequestOp::kWrite, Syndrome::kNakRemoteAccess, EventType::kQpAccessErr, kNotByQp},
        RefusedCase{"ReadKey", RequestOp::kRead, Syndrome::kNakRemoteAccess, EventType::kQpAccessErr, kWrongKey},
        RefusedCase{"ReadBounds", RequestOp::kRead, Syndrome::kNakRemoteAccess, EventType::kQpAccessErr, kTooLong},
        RefusedCase{"ReadQpFlags", RequestOp::kRead, Syndrome::kNakRemoteAccess, EventType::kQpAccessErr, kNotByQp},
        RefusedCase{"ReadLimit", RequestOp::kRead, Syndrome::kNakInvalidRequest, EventType::kQpReqErr, kNoReads},
        RefusedCase{"AtomicKey", RequestOp::kFetchAdd, Syndrome::kNakRemoteAccess, EventType::kQpAccessErr, kWrongKey},
        RefusedCase{"AtomicQpFlags", RequestOp::kCompareSwap, Syndrome::kNakRemoteAccess, EventType::kQpAccessErr, kNotByQp},
        RefusedCase{"AtomicLimit", RequestOp::kFetchAdd, Syndrome::kNakInvalidRequest, EventType::kQpReqErr, kNoReads},
        RefusedCase{"AtomicAlignment", RequestOp::kFetchAdd, Syndrome::kNakInvalidRequest, EventType::kQpReqErr, kMisaligned},
        RefusedCase{"AtomicSize", RequestOp::kCompareSwap, Syndrome::kNakInvalidRequest, EventType::kQpReqErr, kBadSize}),
    [](const auto& one) { return one.param.name; });

TEST_F(ResponderTest, AccessFollowsTheRegionsRights) {
  const TestMr local = a.make_mr(4096, abi::kAccessLocalWrite);
  Request write = request(RequestOp::kWrite, kRqPsn, 8);
  write.rkey = local.key;
  ask_filled(write);
  expect_failed(Syndrome::kNakRemoteAccess, {event(EventType::kQpAccessErr)});
}

TEST_F(ResponderTest, AnEmptyWriteNeedsNoKey) {
  Request write = request(RequestOp::kWrite, kRqPsn);
  write.rkey = 0;
  write.remote_addr = 1;
  ask(write);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
}

TEST_F(ResponderTest, MalformedSegmentsAndStrangersAreDropped) {
  Request bad = request(RequestOp::kWrite, kRqPsn, 8);
  ask(bad);  // without its payload
  bad.message_bytes = 4;
  ask_filled(bad);
  bad = request(RequestOp::kWrite, kRqPsn, 8);
  bad.offset = 9;
  ask_filled(bad);
  bad = request(RequestOp::kRead, kRqPsn, kSegmentBytesMax + 1);
  ask(bad);
  bad = request(RequestOp::kWrite, kRqPsn, 8);
  bad.from.qpn = Qpn(78);
  ask_filled(bad);
  bad = request(RequestOp::kWrite, kRqPsn, 8);
  bad.to.gid = test_gid(99);
  ask_filled(bad);
  bad.to.qpn = Qpn(0xabcdef);
  ask_filled(bad);
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_EQ(a.engine.counters().dropped_unknown_qp, 7u);
  EXPECT_EQ(a.state(qp), abi::QpState::kRts);
}

TEST_F(ResponderTest, AMessageMayNotChangeItsKind) {
  a.receive(qp, receive_of(1, 0, 64));
  Request segment = request(RequestOp::kWrite, kRqPsn, 64);
  segment.bytes = 32;
  ask_filled(segment);
  segment.op = RequestOp::kSend;
  segment.offset = 32;
  ask_filled(segment);
  expect_failed(Syndrome::kNakInvalidRequest, {event(EventType::kQpReqErr)});
}

// The two segments of a send agree about its length, or bytes would land outside the receive.
TEST_F(ResponderTest, AMessageMayNotGrow) {
  a.receive(qp, receive_of(1, 0, 64));
  Request segment = request(RequestOp::kSend, kRqPsn, 64);
  segment.bytes = 32;
  ask_filled(segment);
  segment.offset = 32;
  segment.message_bytes = 128;
  segment.bytes = 96;
  ask_filled(segment);
  expect_failed(Syndrome::kNakInvalidRequest, {});
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kLocalLength}));
}

class KernelResponderTest : public ResponderTest {
 protected:
  KernelResponderTest() : ResponderTest(0) {}
};

TEST_F(KernelResponderTest, SendWithInvalidateEndsAKeyBeforeItsCompletion) {
  const auto region = a.engine.create_mr({.kind = MrKind::kFastRegister, .pd = a.pd, .page_count = 1});
  ASSERT_TRUE(region);
  const auto pages = a.memory.object(1);
  SendWr reg{.wr_id = 1, .opcode = abi::Opcode::kFastRegMr};
  reg.fast_register = abi::FastRegFields{0x4000, pages.directory, 12, 1, 4096,
                                         abi::kAccessLocalWrite | abi::kAccessRemoteWrite, region->key, 0};
  a.send(qp, reg);
  Request write = request(RequestOp::kWrite, kRqPsn, 8);
  write.rkey = region->key;
  write.remote_addr = 0x4000;
  ask_filled(write);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);

  a.receive(qp, receive_of(5, 0, 64));
  Request send = request(RequestOp::kSend, kRqPsn + 1, 8);
  send.extra = Extra::kInvalidate;
  send.extra_value = region->key;
  ask_filled(send);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  const auto cqes = a.poll_cqes(recv_cq);
  ASSERT_THAT(cqes, SizeIs(1));
  EXPECT_EQ(cqes[0].wc_flags, abi::kWcWithInvalidate);
  EXPECT_EQ(cqes[0].imm_data.raw, region->key);

  write.psn = Psn(kRqPsn + 2);
  ask_filled(write);
  EXPECT_EQ(answered().syndrome, Syndrome::kNakRemoteAccess);
}

TEST_F(ResponderTest, InvalidatingAnOrdinaryKeyIsRefused) {
  a.receive(qp, receive_of(5, 0, 64));
  Request send = request(RequestOp::kSend, kRqPsn, 8);
  send.extra = Extra::kInvalidate;
  send.extra_value = mr.key;
  ask_filled(send);
  EXPECT_EQ(answered().syndrome, Syndrome::kNakRemoteAccess);
  EXPECT_EQ(a.state(qp), abi::QpState::kErr);
}

}  // namespace
}  // namespace pvrdma::verbs
