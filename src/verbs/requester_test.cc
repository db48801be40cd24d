// The send side of an RC QP without losses: the messages and the completion of each work request.
#include "verbs/connected_qp_fixture.h"

namespace pvrdma::verbs {
namespace {

using abi::CompletionStatus;
using abi::Opcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RequesterTest : public ConnectedQp {};

TEST_F(RequesterTest, AWriteIsOneRequestAndCompletesWithItsAck) {
  a.fill(mr, 0, 64, 7);
  a.send(qp, write(42));
  const auto messages = sent();
  ASSERT_THAT(messages, SizeIs(1));
  const Request& request = messages[0].message;
  EXPECT_EQ(request.from, a.endpoint(qp));
  EXPECT_EQ(request.to, kPeer);
  EXPECT_EQ(request.number, MessageNumber(kSqPsn));
  EXPECT_EQ(request.op, RequestOp::kWrite);
  EXPECT_EQ(request.extra, Extra::kNone);
  EXPECT_EQ(request.remote_addr, 0x9000u);
  EXPECT_EQ(request.rkey, 0x777u);
  EXPECT_TRUE(request.is_last());
  EXPECT_EQ(messages[0].payload, TestAdapter::pattern_bytes(64, 7));
  EXPECT_THAT(sends_done(), IsEmpty());

  ack(kSqPsn);
  const auto cqes = a.poll_cqes(send_cq);
  ASSERT_THAT(cqes, SizeIs(1));
  EXPECT_EQ(cqes[0].wr_id, 42u);
  EXPECT_EQ(cqes[0].qp, qp.handle.value);
  EXPECT_EQ(cqes[0].opcode, static_cast<std::uint32_t>(abi::CompletionOpcode::kRdmaWrite));
  EXPECT_EQ(cqes[0].status, 0u);
  EXPECT_EQ(a.engine.counters().tx_messages, 1u);
  EXPECT_EQ(a.engine.counters().tx_bytes, 64u);
  EXPECT_EQ(a.engine.counters().retransmits, 0u);
}

struct OpcodeCase {
  const char* name;
  Opcode opcode;
  RequestOp op;
  Extra extra;
  abi::CompletionOpcode completion;
  bool kernel;
};

class EveryOpcode : public ConnectedQp, public ::testing::WithParamInterface<OpcodeCase> {
 protected:
  EveryOpcode() : ConnectedQp(GetParam().kernel ? 0 : 1) {}
};

TEST_P(EveryOpcode, TravelsAndCompletes) {
  const OpcodeCase& c = GetParam();
  SendWr wr = with_sge(c.opcode, 5, 8);
  wr.extra = 0x1234'5678;
  wr.compare_add = 11;
  wr.swap = 22;
  a.send(qp, wr);
  const auto messages = sent();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].message.op, c.op);
  EXPECT_EQ(messages[0].message.extra, c.extra);
  EXPECT_EQ(messages[0].message.extra_value, 0x1234'5678u);
  EXPECT_EQ(messages[0].message.message_bytes, 8u);
  EXPECT_EQ(messages[0].message.compare_add, messages[0].message.is_atomic() ? 11u : 0u);
  EXPECT_EQ(messages[0].message.swap, messages[0].message.is_atomic() ? 22u : 0u);
  EXPECT_THAT(messages[0].payload, SizeIs(messages[0].message.is_read_or_atomic() ? 0 : 8));

  if (c.op == RequestOp::kRead) {
    read_data(kSqPsn, 0, TestAdapter::pattern_bytes(8, 3));
    EXPECT_EQ(a.bytes(mr, 0, 8), TestAdapter::pattern_bytes(8, 3));
  } else if (messages[0].message.is_atomic()) {
    atomic_result(kSqPsn, c.op, 0xfeed'beef'0000'0001);
    EXPECT_EQ(a.word(mr, 0), 0xfeed'beef'0000'0001);
  } else {
    ack(kSqPsn);
  }
  const auto cqes = a.poll_cqes(send_cq);
  ASSERT_THAT(cqes, SizeIs(1));
  EXPECT_EQ(cqes[0].status, 0u);
  EXPECT_EQ(cqes[0].opcode, static_cast<std::uint32_t>(c.completion));
}

INSTANTIATE_TEST_SUITE_P(
    Requester, EveryOpcode,
    ::testing::Values(OpcodeCase{"Write", Opcode::kRdmaWrite, RequestOp::kWrite, Extra::kNone,
                                 abi::CompletionOpcode::kRdmaWrite, false},
                      OpcodeCase{"WriteImm", Opcode::kRdmaWriteWithImm, RequestOp::kWrite, Extra::kImmediate,
                                 abi::CompletionOpcode::kRdmaWrite, false},
                      OpcodeCase{"Send", Opcode::kSend, RequestOp::kSend, Extra::kNone,
                                 abi::CompletionOpcode::kSend, false},
                      OpcodeCase{"SendImm", Opcode::kSendWithImm, RequestOp::kSend, Extra::kImmediate,
                                 abi::CompletionOpcode::kSend, false},
                      OpcodeCase{"Read", Opcode::kRdmaRead, RequestOp::kRead, Extra::kNone,
                                 abi::CompletionOpcode::kRdmaRead, false},
                      OpcodeCase{"CompareSwap", Opcode::kAtomicCmpAndSwp, RequestOp::kCompareSwap,
                                 Extra::kNone, abi::CompletionOpcode::kCompSwap, false},
                      OpcodeCase{"FetchAdd", Opcode::kAtomicFetchAndAdd, RequestOp::kFetchAdd, Extra::kNone,
                                 abi::CompletionOpcode::kFetchAdd, false},
                      OpcodeCase{"SendInv", Opcode::kSendWithInv, RequestOp::kSend, Extra::kInvalidate,
                                 abi::CompletionOpcode::kSend, true}),
    [](const auto& one) { return one.param.name; });

class KernelRequesterTest : public ConnectedQp {
 protected:
  KernelRequesterTest() : ConnectedQp(0) {}
};

TEST_F(KernelRequesterTest, FastRegisterAndLocalInvalidateHappenInOrderAndTakeNoSequenceNumber) {
  const auto region = a.engine.create_mr({.kind = MrKind::kFastRegister, .pd = a.pd, .page_count = 4});
  ASSERT_TRUE(region);
  const std::uint32_t key = region->key | 0x5;
  const auto pages = a.memory.object(2);
  SendWr reg{.wr_id = 1, .opcode = Opcode::kFastRegMr};
  reg.fast_register = abi::FastRegFields{.iova_start = 0x10'0100,
                                         .pl_pdir_dma = pages.directory,
                                         .page_shift = 12,
                                         .page_list_len = 2,
                                         .length = 4096,
                                         .access_flags = abi::kAccessLocalWrite,
                                         .rkey = key};
  a.post(qp, reg);
  a.post(qp, SendWr{.wr_id = 2, .sges = {{0x10'0100, 4096, key}}});
  a.post(qp, SendWr{.wr_id = 3, .opcode = Opcode::kLocalInv, .extra = key});
  a.ring(qp);
  // The invalidation waits for the write's answer.
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_THAT(sent_numbers(), ElementsAre(kSqPsn));
  ack(kSqPsn);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{2}, Completion{3}));

  a.send(qp, SendWr{.wr_id = 4, .sges = {{0x10'0100, 64, key}}});
  EXPECT_THAT(sends_done(), ElementsAre(Completion{4, CompletionStatus::kLocalProtection}));
}

TEST_F(RequesterTest, ALongMessageGoesInSegments) {
  constexpr std::uint32_t kBytes = 2 * kPieceBytesMax + 100;
  a.fill(mr, 0, kBytes, 9);
  a.send(qp, write(1, kBytes));
  a.settle();
  const auto messages = sent();
  ASSERT_THAT(messages, SizeIs(3));
  std::vector<std::byte> all;
  for (const auto& one : messages) {
    EXPECT_EQ(one.message.number, MessageNumber(kSqPsn));
    EXPECT_EQ(one.message.offset, all.size());
    EXPECT_EQ(one.message.message_bytes, kBytes);
    EXPECT_EQ(one.message.remote_addr, 0x9000u);
    all.insert(all.end(), one.payload.begin(), one.payload.end());
  }
  EXPECT_EQ(all, TestAdapter::pattern_bytes(kBytes, 9));
  EXPECT_TRUE(messages[2].message.is_last());
  ack(kSqPsn);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
}

TEST_F(RequesterTest, AScatteredMessageIsGatheredInOrder) {
  a.fill(mr, 0, 10, 1);
  a.fill(mr, 5000, 5, 2);
  a.send(qp, SendWr{.wr_id = 1, .sges = {mr.sge(5000, 5), {0xbad, 0, 0xbad}, mr.sge(0, 10)}});
  auto expected = TestAdapter::pattern_bytes(5, 2);
  const auto tail = TestAdapter::pattern_bytes(10, 1);
  expected.insert(expected.end(), tail.begin(), tail.end());
  const auto messages = sent();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].payload, expected);
}

TEST_F(RequesterTest, EmptyMessagesTravel) {
  for (const Opcode opcode : {Opcode::kRdmaWrite, Opcode::kSend, Opcode::kRdmaRead}) {
    a.post(qp, with_sge(opcode, 1, 0));
  }
  a.ring(qp);
  const auto messages = sent();
  ASSERT_THAT(messages, SizeIs(3));
  for (const auto& one : messages) EXPECT_TRUE(one.message.is_last());
  read_data(kSqPsn + 2, 0, {});
  EXPECT_THAT(sends_done(), SizeIs(3));
}

TEST_F(RequesterTest, UnsignalledWorkCompletesSilently) {
  SendWr quiet = write(1);
  quiet.flags = 0;
  a.post(qp, quiet);
  a.send(qp, write(2));
  ack(kSqPsn + 1);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{2}));
}

TEST_F(RequesterTest, AQpThatSignalsAllNeedsNoFlag) {
  TestQp all = a.make_qp(send_cq, recv_cq, {.signal_all = true});
  a.connect(all, kPeer);
  SendWr quiet = write(1);
  quiet.flags = 0;
  a.send(all, quiet);
  SpanPayload nothing;
  a.engine.on_response({.from = kPeer, .to = a.endpoint(all), .number = MessageNumber(100)}, nothing, a.now);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
}

TEST_F(RequesterTest, TheSolicitedFlagTravels) {
  SendWr wr = send_wr(1);
  wr.flags |= abi::kSendSolicited;
  a.send(qp, wr);
  a.send(qp, send_wr(2));
  const auto messages = sent();
  ASSERT_THAT(messages, SizeIs(2));
  EXPECT_TRUE(messages[0].message.solicited);
  EXPECT_FALSE(messages[1].message.solicited);
}

TEST_F(RequesterTest, AtMostMaxRdAtomicReadsAndAtomicsAreOut) {
  for (std::uint64_t i = 0; i < 6; ++i) a.post(qp, i % 2 == 0 ? read(i) : fetch_add(i));
  a.post(qp, write(6));
  a.ring(qp);
  EXPECT_THAT(sent_numbers(), ElementsAre(100, 101, 102, 103));
  read_data(100, 0, TestAdapter::pattern_bytes(64, 1));
  EXPECT_THAT(sent_numbers(), ElementsAre(104));
  atomic_result(101, RequestOp::kFetchAdd, 5);
  EXPECT_THAT(sent_numbers(), ElementsAre(105, 106));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{0}, Completion{1}));
}

TEST_F(RequesterTest, AFenceWaitsForEarlierReads) {
  SendWr fenced = write(3);
  fenced.flags |= abi::kSendFence;
  a.post(qp, read(1));
  a.post(qp, write(2));
  a.post(qp, fenced);
  a.send(qp, write(4));
  EXPECT_THAT(sent_numbers(), ElementsAre(100, 101));
  ack(101);
  EXPECT_THAT(sent(), IsEmpty());
  read_data(100, 0, TestAdapter::pattern_bytes(64, 1));
  EXPECT_THAT(sent_numbers(), ElementsAre(102, 103));
}

TEST_F(RequesterTest, ALongReadIsAskedForPieceByPiece) {
  constexpr std::uint32_t kBytes = 6 * kPieceBytesMax;
  a.send(qp, read(1, kBytes));
  a.settle();
  EXPECT_THAT(sent(), SizeIs(4));  // the most that is asked for before it arrives
  const auto data = TestAdapter::pattern_bytes(kBytes, 5);
  for (std::uint32_t offset = 0; offset < kBytes; offset += kPieceBytesMax) {
    read_data(100, offset, {data.begin() + offset, data.begin() + offset + kPieceBytesMax});
  }
  EXPECT_THAT(sent(), SizeIs(2));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.bytes(mr, 0, kBytes), data);
}

TEST_F(RequesterTest, OneAckCompletesAllBefore) {
  for (std::uint64_t i = 1; i <= 4; ++i) a.post(qp, write(i));
  a.ring(qp);
  ack(102);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}, Completion{3}));
  ack(103);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{4}));
}

TEST_F(RequesterTest, ACumulativeAckLeavesReadsWithoutDataOpen) {
  a.post(qp, write(1));
  a.post(qp, read(2));
  a.post(qp, fetch_add(3));
  a.post(qp, write(4));
  a.ring(qp);
  ack(103);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  atomic_result(102, RequestOp::kFetchAdd, 8);
  EXPECT_THAT(sends_done(), IsEmpty());
  read_data(101, 0, TestAdapter::pattern_bytes(64, 1));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{2}, Completion{3}, Completion{4}));
}

TEST_F(RequesterTest, AFullWindowTakesNoMoreWorkUntilSomethingCompletes) {
  for (std::uint64_t i = 0; i < 40; ++i) a.post(qp, write(i));
  a.ring(qp);
  a.settle();
  const std::size_t window = sent().size();
  EXPECT_LT(window, 40u);
  EXPECT_EQ(qp.sends.cons_head(), window);
  ack(kSqPsn);
  EXPECT_THAT(sent_numbers(), ElementsAre(kSqPsn + window));
  for (std::uint32_t number = kSqPsn + 1; number < kSqPsn + 40; ++number) ack(number);
  EXPECT_THAT(sends_done(), SizeIs(40));
  // The timer stays armed and expires without effect.
  EXPECT_EQ(a.engine.next_deadline() == Instant::never(), false);
  advance(std::chrono::seconds(1));
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
  EXPECT_EQ(a.engine.counters().timeouts, 0u);
}

TEST_F(RequesterTest, SequenceNumbersWrap) {
  a.reset(qp);
  a.connect(qp, kPeer, {.sq_psn = MessageNumber::kMask - 1});
  for (std::uint64_t i = 1; i <= 4; ++i) a.post(qp, write(i));
  a.ring(qp);
  EXPECT_THAT(sent_numbers(), ElementsAre(MessageNumber::kMask - 1, MessageNumber::kMask, 0, 1));
  ack(1);
  EXPECT_THAT(sends_done(), SizeIs(4));
}

}  // namespace
}  // namespace pvrdma::verbs
