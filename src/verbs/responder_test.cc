// The receive side of an RC QP: what requests do to guest memory, and what the answers are.
#include "verbs/connected_qp_fixture.h"
#include "verbs/queue_pair.h"

namespace pvrdma::verbs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ResponderTest : public ConnectedQp {
 protected:
  // QPs of the SRQ, which has no receive: a peer of each, Qpn(100) and so on, has sent a message and pauses.
  std::vector<TestQp> make_pausing(TestSrq& srq, std::uint32_t count) {
    std::vector<TestQp> qps;
    for (std::uint32_t i = 0; i < count; ++i) {
      qps.push_back(a.make_qp(send_cq, recv_cq, {.srq = &srq}));
      a.connect(qps[i], {kPeer.gid, Qpn(100 + i)}, connection());
      Request send = request(RequestOp::kSend, kRqPsn, 8);
      send.from = {kPeer.gid, Qpn(100 + i)};
      send.to = a.endpoint(qps[i]);
      ask_filled(send);
      EXPECT_EQ(answered().syndrome, Syndrome::kRnrNak);
    }
    return qps;
  }
};

TEST_F(ResponderTest, AWriteLandsInMemoryAndIsAcked) {
  ask_filled(request(RequestOp::kWrite, kRqPsn, 100), 5);
  EXPECT_EQ(a.bytes(mr, 0, 100), TestAdapter::pattern_bytes(100, 5));
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kAck);
  EXPECT_EQ(response.number, MessageNumber(kRqPsn));
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
  constexpr std::uint32_t kBytes = kPieceBytesMax + 50;
  a.receive(qp, receive_of(1, 0, kBytes));
  const auto data = TestAdapter::pattern_bytes(kBytes, 3);
  Request piece = request(RequestOp::kSend, kRqPsn, kBytes);
  piece.bytes = kPieceBytesMax;
  ask(piece, {data.begin(), data.begin() + kPieceBytesMax});
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_THAT(receives_done(), IsEmpty());
  piece.offset = kPieceBytesMax;
  piece.bytes = 50;
  ask(piece, {data.begin() + kPieceBytesMax, data.end()});
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

  swap.number = MessageNumber(kRqPsn + 2);
  ask(swap);  // the word no longer matches
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
  EXPECT_EQ(answered().number, MessageNumber(kRqPsn + 1)) << "acks cumulatively";
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 16), 2);
  EXPECT_EQ(answered().number, MessageNumber(kRqPsn + 1));
  EXPECT_EQ(a.bytes(mr, 0, 16), TestAdapter::pattern_bytes(16, 9));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.engine.counters().duplicates, 2u);
}

TEST_F(ResponderTest, AnAtomicIsExecutedOnceHoweverOftenItComes) {
  for (std::uint32_t i = 0; i < kRdAtomicMax; ++i) {
    Request add = request(RequestOp::kFetchAdd, kRqPsn + i, 8);
    add.compare_add = 1;
    ask(add);
  }
  answers();
  for (std::uint32_t i = 0; i < kRdAtomicMax; ++i) {
    Request add = request(RequestOp::kFetchAdd, kRqPsn + i, 8);
    add.compare_add = 1;
    ask(add);
    const Response response = answered();
    EXPECT_EQ(response.number, MessageNumber(kRqPsn + i));
    EXPECT_EQ(response.atomic_original, i);
  }
  EXPECT_EQ(a.word(mr, 0), kRdAtomicMax);
}

TEST_F(ResponderTest, AReadIsServedAgainFromAnyPieceOn) {
  Request read = request(RequestOp::kRead, kRqPsn, 3 * kPieceBytesMax);
  read.bytes = kPieceBytesMax;
  for (const std::uint32_t piece : {0u, 1u, 1u, 0u, 2u, 1u}) {
    read.offset = piece * kPieceBytesMax;
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
  EXPECT_EQ(response.number, MessageNumber(kRqPsn));
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

TEST_F(ResponderTest, WhatCameEarlyIsAskedForOnce) {
  const auto path_is_restored = [this] {
    a.engine.on_path_restored([](const Endpoint&, const Endpoint& peer) { return peer.gid == kPeer.gid; },
                              a.now);
    a.settle();
  };
  path_is_restored();
  EXPECT_THAT(answers(), IsEmpty());
  Request write = request(RequestOp::kWrite, kRqPsn, 8);
  write.from.qpn = Qpn(78);
  a.engine.on_early_request(write, PeerPlace(0), a.now);
  path_is_restored();
  EXPECT_THAT(answers(), IsEmpty()) << "another QP's";
  write.from = kPeer;
  a.engine.on_early_request(write, PeerPlace(0), a.now);
  EXPECT_THAT(answers(), IsEmpty());
  path_is_restored();
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kNakSequence);
  EXPECT_EQ(response.number, MessageNumber(kRqPsn));
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 8));
  path_is_restored();
  EXPECT_THAT(answers(), IsEmpty()) << "it has been told";
  ask_filled(write);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);

  write.number = MessageNumber(kRqPsn + 1);
  a.engine.on_early_request(write, PeerPlace(0), a.now);
  ask_filled(write);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  path_is_restored();
  EXPECT_EQ(answered().syndrome, Syndrome::kAck) << "the first answer may have been lost";
  path_is_restored();
  EXPECT_THAT(answers(), IsEmpty());
}

// The answers to what was executed were lost, and its repetition came early. So the requester waits for
// nothing after it.
class CameAgainEarly : public ResponderTest {
 protected:
  using Answer = std::pair<Syndrome, std::uint32_t>;  // and the message
  static constexpr PeerPlace kOld{1};
  static constexpr PeerPlace kNew{2};

  void SetUp() override {
    ResponderTest::SetUp();
    a.wire.place = kOld;
    execute({kRqPsn, kRqPsn + 1, kRqPsn + 2});
  }
  void execute(std::initializer_list<std::uint32_t> writes) {
    for (const std::uint32_t number : writes) {
      ask_filled(request(RequestOp::kWrite, number, 8));
      EXPECT_EQ(answered().syndrome, Syndrome::kAck);
    }
  }
  void come_early(RequestOp op, std::uint32_t number, PeerPlace from = kOld) {
    a.engine.on_early_request(request(op, number, 8), from, a.now);
  }
  std::vector<Answer> when_the_path_is_restored() {
    a.engine.on_all_paths_restored(a.now);
    a.settle();
    std::vector<Answer> all;
    for (const auto& each : answers()) {
      EXPECT_EQ(each.message.offset, 0u);
      all.emplace_back(each.message.syndrome, each.message.number.value);
    }
    return all;
  }
  std::vector<Answer> when_the_peer_is_known_to_be_at(PeerPlace place) {
    a.wire.place = place;
    return when_the_path_is_restored();
  }
};

TEST_F(CameAgainEarly, WritesAreAcknowledgedAndCostNoRetry) {
  for (const std::uint32_t number : {kRqPsn + 2, kRqPsn + 1}) come_early(RequestOp::kWrite, number);
  EXPECT_THAT(when_the_path_is_restored(),
              ElementsAre(Answer{Syndrome::kAck, kRqPsn + 2}, Answer{Syndrome::kNakSequence, kRqPsn + 3}));
  EXPECT_THAT(when_the_path_is_restored(), IsEmpty());
}

TEST_F(CameAgainEarly, ReadsAreAskedForFromTheFirstOn) {
  for (const std::uint32_t number : {kRqPsn + 2, kRqPsn + 1}) come_early(RequestOp::kRead, number);
  EXPECT_THAT(when_the_path_is_restored(), ElementsAre(Answer{Syndrome::kNakSequence, kRqPsn + 1},
                                                       Answer{Syndrome::kNakSequence, kRqPsn + 3}));
}

// The port was stopped twice.
TEST_F(CameAgainEarly, AnEarlierGapIsForgotten) {
  come_early(RequestOp::kRead, kRqPsn + 1);
  EXPECT_THAT(when_the_path_is_restored(), SizeIs(2));
  execute({kRqPsn + 3});
  come_early(RequestOp::kRead, kRqPsn + 2);
  EXPECT_THAT(when_the_path_is_restored(), ElementsAre(Answer{Syndrome::kNakSequence, kRqPsn + 2},
                                                       Answer{Syndrome::kNakSequence, kRqPsn + 4}));
}

// Copies came from the peer's old place, too. The answers went there.
TEST_F(CameAgainEarly, WhatWasExecutedMeanwhileIsAnsweredAgain) {
  come_early(RequestOp::kRead, kRqPsn + 1, kNew);
  for (const std::uint32_t number : {kRqPsn + 3, kRqPsn + 4}) come_early(RequestOp::kWrite, number, kNew);
  execute({kRqPsn + 3});
  EXPECT_THAT(when_the_path_is_restored(), IsEmpty()) << "the peer would not hear it";
  EXPECT_THAT(when_the_peer_is_known_to_be_at(kNew),
              ElementsAre(Answer{Syndrome::kAck, kRqPsn + 3}, Answer{Syndrome::kNakSequence, kRqPsn + 1},
                          Answer{Syndrome::kNakSequence, kRqPsn + 4}));
  EXPECT_THAT(when_the_path_is_restored(), IsEmpty());
}

TEST_F(CameAgainEarly, NothingIsAskedForThatWasExecutedMeanwhile) {
  come_early(RequestOp::kWrite, kRqPsn + 3, kNew);
  execute({kRqPsn + 3});
  EXPECT_THAT(when_the_peer_is_known_to_be_at(kNew), ElementsAre(Answer{Syndrome::kAck, kRqPsn + 3}));
}

TEST_F(CameAgainEarly, APeerThatIsElsewhereIsAskedOnceMore) {
  constexpr PeerPlace kBetween{3};
  come_early(RequestOp::kWrite, kRqPsn + 3, kNew);
  EXPECT_THAT(when_the_path_is_restored(), ElementsAre(Answer{Syndrome::kNakSequence, kRqPsn + 3}));
  EXPECT_THAT(when_the_path_is_restored(), IsEmpty());
  EXPECT_THAT(when_the_peer_is_known_to_be_at(kBetween), IsEmpty());
  EXPECT_THAT(when_the_peer_is_known_to_be_at(kNew), ElementsAre(Answer{Syndrome::kNakSequence, kRqPsn + 3}));
  EXPECT_THAT(when_the_path_is_restored(), IsEmpty());
}

// Copies that were under way when the peer left that place, long ago.
TEST_F(CameAgainEarly, WhatCameToNothingIsForgotten) {
  a.wire.place = kNew;
  come_early(RequestOp::kRead, kRqPsn + 1, kOld);
  execute({kRqPsn + 3});
  a.now = a.now + std::chrono::seconds(6);
  come_early(RequestOp::kRead, kRqPsn + 2, kOld);  // it is there again
  EXPECT_THAT(when_the_peer_is_known_to_be_at(kOld), ElementsAre(Answer{Syndrome::kNakSequence, kRqPsn + 2},
                                                                 Answer{Syndrome::kNakSequence, kRqPsn + 4}));
}

TEST_F(CameAgainEarly, WhatNobodyWasAskedForIsNotForgotten) {
  come_early(RequestOp::kRead, kRqPsn + 1);
  a.now = a.now + std::chrono::seconds(60);  // the port is stopped for so long
  come_early(RequestOp::kRead, kRqPsn + 2);
  EXPECT_THAT(when_the_path_is_restored(), ElementsAre(Answer{Syndrome::kNakSequence, kRqPsn + 1},
                                                       Answer{Syndrome::kNakSequence, kRqPsn + 3}));
}

// It has sent everything again from there.
TEST_F(CameAgainEarly, OnlyWhatComesFromThePeersLastPlaceCounts) {
  come_early(RequestOp::kRead, kRqPsn + 1, kOld);
  come_early(RequestOp::kRead, kRqPsn + 2, kNew);
  EXPECT_THAT(when_the_peer_is_known_to_be_at(kNew), ElementsAre(Answer{Syndrome::kNakSequence, kRqPsn + 2},
                                                                 Answer{Syndrome::kNakSequence, kRqPsn + 3}));
}

TEST_F(ResponderTest, AGapWithinAMessageNamesItsPlace) {
  Request piece = request(RequestOp::kWrite, kRqPsn, 3 * 100);
  piece.bytes = 100;
  ask_filled(piece);
  piece.offset = 200;
  ask_filled(piece);
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kNakSequence);
  EXPECT_EQ(response.number, MessageNumber(kRqPsn));
  EXPECT_EQ(response.offset, 100u);
}

TEST_F(ResponderTest, SequenceNumbersWrap) {
  a.reset(qp);
  a.connect(qp, kPeer, {.rq_psn = MessageNumber::kMask});
  ask_filled(request(RequestOp::kWrite, MessageNumber::kMask, 8));
  ask_filled(request(RequestOp::kWrite, 0, 8));
  ask_filled(request(RequestOp::kWrite, MessageNumber::kMask, 8));
  const auto all = answers();
  ASSERT_THAT(all, SizeIs(3));
  EXPECT_EQ(all[2].message.number, MessageNumber(0));
  EXPECT_EQ(a.engine.counters().duplicates, 1u);
}

// --- Receiver not ready ---

TEST_F(ResponderTest, WithoutAReceiveThePeerIsToldWhenToComeBack) {
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kRnrNak);
  EXPECT_EQ(response.rnr_timer, 12);
  EXPECT_EQ(response.number, MessageNumber(kRqPsn));
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 8), 4);
  EXPECT_THAT(answers(), IsEmpty()) << "what was under way is dropped in silence";
  EXPECT_EQ(a.bytes(mr, 0, 8), std::vector<std::byte>(8));

  a.receive(qp, receive_of(1, 64, 64));
  EXPECT_EQ(answered().syndrome, Syndrome::kProgress);
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 8), 4);
  EXPECT_THAT(answers(), SizeIs(2));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
}

TEST_F(ResponderTest, APeerThatPausesIsToldOnceWhenThereIsAReceive) {
  a.receive(qp, receive_of(1, 0, 64));
  EXPECT_THAT(answers(), IsEmpty()) << "nobody pauses";
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  ask_filled(request(RequestOp::kSend, kRqPsn + 1, 8));
  answers();
  a.engine.receive_doorbell(qp.uar, qp.handle, a.now);
  EXPECT_THAT(answers(), IsEmpty()) << "a doorbell without a receive";
  a.receive(qp, receive_of(2, 0, 64));
  const Response told = answered();
  EXPECT_EQ(told.syndrome, Syndrome::kProgress);
  EXPECT_EQ(told.number, MessageNumber(kRqPsn + 1));
  EXPECT_EQ(told.offset, 0u);
  EXPECT_EQ(told.to, kPeer);
  a.receive(qp, receive_of(3, 0, 64));
  EXPECT_THAT(answers(), IsEmpty());
}

// Each receive is for one of the peers that pause, in the order in which they were refused.
TEST_F(ResponderTest, AReceiveOfAnSrqIsToldToOnePeer) {
  TestSrq srq = a.make_srq(4);
  const std::vector<TestQp> qps = make_pausing(srq, 3);
  const auto post = [&] {
    TestAdapter::post_receive(srq.ring, receive_of(1, 0, 64));
    a.engine.srq_doorbell(1, srq.handle, a.now);
  };
  EXPECT_TRUE(a.to_state(qps[1], abi::QpState::kErr));
  post();
  EXPECT_EQ(answered().to.qpn, Qpn(100));
  a.engine.srq_doorbell(1, srq.handle, a.now);
  EXPECT_EQ(answered().to.qpn, Qpn(102)) << "the second QP has failed";
  a.engine.srq_doorbell(1, srq.handle, a.now);
  EXPECT_THAT(answers(), IsEmpty());
}

TEST_F(ResponderTest, AQpThatWasResetTakesNobodyElsesReceiveOfAnSrq) {
  TestSrq srq = a.make_srq(4);
  const std::vector<TestQp> qps = make_pausing(srq, 2);
  EXPECT_TRUE(a.to_state(qps[0], abi::QpState::kReset));
  TestAdapter::post_receive(srq.ring, receive_of(1, 0, 64));
  a.engine.srq_doorbell(1, srq.handle, a.now);
  EXPECT_EQ(answered().to.qpn, Qpn(101));
}

TEST_F(ResponderTest, AWriteWithImmediateNeedsItsReceiveWithItsLastSegment) {
  Request piece = request(RequestOp::kWrite, kRqPsn, 200);
  piece.extra = Extra::kImmediate;
  piece.bytes = 100;
  ask_filled(piece, 1);
  EXPECT_THAT(answers(), IsEmpty());
  piece.offset = 100;
  ask_filled(piece, 2);
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kRnrNak);
  EXPECT_EQ(response.offset, 100u);
  a.receive(qp, receive_of(1, 0, 0));
  EXPECT_EQ(answered().offset, 100u);
  ask_filled(piece, 2);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_EQ(a.bytes(mr, 100, 100), TestAdapter::pattern_bytes(100, 2));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
}

}  // namespace
}  // namespace pvrdma::verbs
