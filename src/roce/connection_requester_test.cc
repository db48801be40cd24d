// The requester of a connection: the packets of each work request, and the effect of each answer that a peer
// may send (IBTA vol. 1, 9.7.5 and 9.9.2).
#include "roce/connection_fixture.h"

namespace pvrdma::roce {
namespace {

using abi::CompletionStatus;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using verbs::Completion;
using verbs::kSqPsn;

class RoceRequester : public ConnectionTest {
 protected:
  std::vector<Seen> sent_packets() { return seen(packets()); }
  // How many packets of a long write leave at once. If nothing is in flight, that is the window.
  std::size_t window() {
    a.send(qp, write(99, 1u << 20));
    return packets().size();
  }
  void arrive_data(Opcode opcode, std::uint32_t psn, std::uint32_t bytes, std::uint8_t seed) {
    arrive_answer(opcode, psn, kSyndromeAck, filled(bytes, seed));
  }
};

Seen asked(Opcode opcode, std::uint32_t psn) {
  return {opcode, psn};
}

// --- Requests. ---

TEST_F(RoceRequester, APacketSaysWhichPlaceItHasInItsMessage) {
  a.send(qp, write(1, 3 * kMtu));
  const auto out = packets();
  ASSERT_THAT(seen(out), ElementsAre(asked(Opcode::kWriteFirst, 100), asked(Opcode::kWriteMiddle, 101),
                                     asked(Opcode::kWriteLast, 102)));
  EXPECT_EQ(out[0].remote_addr, 0x9000u);
  EXPECT_EQ(out[0].rkey, 0x777u);
  EXPECT_EQ(out[0].dma_bytes, 3 * kMtu);
  EXPECT_FALSE(out[0].ack_request);
  EXPECT_FALSE(out[1].ack_request);
  EXPECT_TRUE(out[2].ack_request);
  EXPECT_EQ(payload_of(out[1]), a.bytes(mr, kMtu, kMtu));
}

TEST_F(RoceRequester, EachKindHasItsOpcodes) {
  const auto immediate = [](verbs::SendWr wr) {
    wr.opcode = wr.opcode == abi::Opcode::kSend ? abi::Opcode::kSendWithImm : abi::Opcode::kRdmaWriteWithImm;
    wr.extra = 0x0102'0304;
    wr.flags |= abi::kSendSolicited;
    return wr;
  };
  a.post(qp, write(1, 0));
  a.post(qp, immediate(write(2, kMtu)));
  a.post(qp, immediate(write(3, kMtu + 1)));
  a.post(qp, send_wr(4, 0));
  a.post(qp, send_wr(5, kMtu + 1));
  a.post(qp, immediate(send_wr(6, 1)));
  a.post(qp, immediate(send_wr(7, kMtu + 1)));
  a.ring(qp);
  const auto out = packets();
  ASSERT_THAT(seen(out), ElementsAre(asked(Opcode::kWriteOnly, 100), asked(Opcode::kWriteOnlyImmediate, 101),
                                     asked(Opcode::kWriteFirst, 102), asked(Opcode::kWriteLastImmediate, 103),
                                     asked(Opcode::kSendOnly, 104), asked(Opcode::kSendFirst, 105),
                                     asked(Opcode::kSendLast, 106), asked(Opcode::kSendOnlyImmediate, 107),
                                     asked(Opcode::kSendFirst, 108), asked(Opcode::kSendLastImmediate, 109)));
  EXPECT_EQ(out[3].immediate, 0x0102'0304u);
  EXPECT_FALSE(out[2].solicited) << "the last packet says so";
  EXPECT_TRUE(out[3].solicited);
}

TEST_F(RoceRequester, LongMessagesAskOnTheirWay) {
  a.send(qp, write(1, 40 * kMtu));
  std::vector<std::uint32_t> asking;
  for (const Packet& packet : packets()) {
    if (packet.ack_request) asking.push_back(packet.psn.value);
  }
  EXPECT_THAT(asking, ElementsAre(111, 127, 139));
}

TEST_F(RoceRequester, WhatFindsNoRoomGoesWhenThereIsSome) {
  sink.free = 2;
  a.send(qp, write(1, 3 * kMtu));
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kWriteFirst, 100), asked(Opcode::kWriteMiddle, 101)));
  sink.free = 100;
  a.engine.on_path_ready();
  a.settle();
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kWriteLast, 102)));
}

TEST_F(RoceRequester, LongReadsAreAskedForInParts) {
  constexpr std::uint32_t kPart = Sender::kPacketsAsked * kMtu;
  a.send(qp, read(1, kPart + kMtu));
  auto out = packets();
  ASSERT_THAT(seen(out), ElementsAre(asked(Opcode::kReadRequest, 100))) << "a window of answers";
  EXPECT_EQ(out[0].remote_addr, 0x9000u);
  EXPECT_EQ(out[0].dma_bytes, kPart);
  for (std::uint32_t i = 0; i < 60; ++i) arrive_data(Opcode::kReadResponseMiddle, 100 + i, kMtu, 1);
  out = packets();
  ASSERT_THAT(seen(out), ElementsAre(asked(Opcode::kReadRequest, 164)));
  EXPECT_EQ(out[0].remote_addr, 0x9000u + kPart);
  EXPECT_EQ(out[0].dma_bytes, kMtu);
  arrive_data(Opcode::kReadResponseMiddle, 162, kMtu, 1);  // the two before it are lost
  out = packets();
  ASSERT_THAT(seen(out), ElementsAre(asked(Opcode::kReadRequest, 160), asked(Opcode::kReadRequest, 164)));
  EXPECT_EQ(out[0].dma_bytes, 4 * kMtu) << "never beyond what was asked for first";
  for (std::uint32_t i = 160; i < 165; ++i) arrive_data(Opcode::kReadResponseMiddle, i, kMtu, 1);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
}

TEST_F(RoceRequester, NoMoreReadsAreOutThanThePeerTakes) {
  for (std::uint64_t i = 0; i < 6; ++i) a.post(qp, read(i, 8));
  a.ring(qp);
  EXPECT_THAT(packets(), SizeIs(4));  // max_rd_atomic
  arrive_data(Opcode::kReadResponseOnly, 100, 8, 1);
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kReadRequest, 104)));
}

// --- Acknowledgements. ---

TEST_F(RoceRequester, AnAcknowledgementIsOfAllBeforeIt) {
  for (std::uint64_t i = 1; i <= 3; ++i) a.send(qp, write(i, 2 * kMtu));
  arrive_ack(102);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1})) << "half of the second is executed";
  EXPECT_EQ(a.engine.packets_sent(over().ends.connection)->oldest, verbs::Psn(103));
  arrive_ack(105);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{2}, Completion{3}));
}

TEST_F(RoceRequester, PacketNumbersWrap) {
  a.reset(qp);
  a.connect(qp, verbs::kPeer, {.sq_psn = verbs::Psn::kMask - 1});
  a.send(qp, write(1, 4 * kMtu));
  EXPECT_THAT(sent_packets(),
              ElementsAre(asked(Opcode::kWriteFirst, 0xff'fffe), asked(Opcode::kWriteMiddle, 0xff'ffff),
                          asked(Opcode::kWriteMiddle, 0), asked(Opcode::kWriteLast, 1)));
  arrive_ack(0xff'ffff);
  arrive_ack(0, kSyndromeNakSequence);
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kWriteMiddle, 0), asked(Opcode::kWriteLast, 1)));
  arrive_ack(1);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
}

TEST_F(RoceRequester, GhostsChangeNothing) {
  a.send(qp, write(1, 8));
  a.send(qp, write(2, 8));
  arrive_ack(100);
  EXPECT_THAT(sends_done(), SizeIs(1));
  static_cast<void>(packets());
  arrive_ack(100);
  arrive_ack(100, kSyndromeNakSequence);
  arrive_ack(100, kSyndromeNakRemoteAccess);
  arrive_ack(0xff'ffff);  // rxe sends this before it has executed anything
  EXPECT_EQ(counters.bad_response, 0u);
  arrive_ack(102);  // the packet to be sent next
  arrive_ack(5000, kSyndromeNakInvalidRequest);
  EXPECT_EQ(counters.bad_response, 2u);
  EXPECT_THAT(packets(), IsEmpty());
  EXPECT_THAT(sends_done(), IsEmpty());
  EXPECT_FALSE(failed());
}

TEST_F(RoceRequester, AnAnswerBeyondWhatWasSentIsNone) {
  EXPECT_EQ(window(), 64u);  // the first packets of a longer message
  arrive_ack(164);
  arrive_ack(1000, kSyndromeNakSequence);
  EXPECT_EQ(counters.bad_response, 2u);
  EXPECT_EQ(counters.packet_seq_err, 0u);
  EXPECT_EQ(a.engine.packets_sent(over().ends.connection)->oldest, verbs::Psn(100));
  arrive_ack(100, kSyndromeNakSequence);
  static_cast<void>(packets());
  arrive_ack(163);
  EXPECT_EQ(counters.bad_response, 2u) << "of what goes out again";
}

// The peer has executed packets that this side, which has lost its state, is about to send again. If this
// side ignored the peer's answer, it would never get that far with a window of a few packets.
TEST_F(RoceRequester, WhoHasForgottenTakesTheWordOfAPeerThatIsAhead) {
  EXPECT_EQ(window(), 64u);  // the first packets of a longer message
  forget();
  sink.free = 4;
  advance(RoundTrip::kFirst);
  EXPECT_THAT(sent_packets(), SizeIs(4));
  arrive_ack(163);
  EXPECT_EQ(a.engine.packets_sent(over().ends.connection)->oldest, verbs::Psn(164));
  EXPECT_EQ(counters.bad_response, 0u);
}

TEST_F(RoceRequester, AnswersAreUnderstoodWithoutWhatWasRemembered) {
  a.send(qp, write(1, 3 * kMtu));
  a.send(qp, read(2, 8));
  forget();
  arrive_ack(102);
  arrive_data(Opcode::kReadResponseOnly, 103, 8, 5);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}));
  EXPECT_EQ(a.bytes(mr, 0, 8), filled(8, 5));
}

// --- Missing packets. ---

TEST_F(RoceRequester, ASequenceNakConfirmsWhatIsBeforeIt) {
  a.send(qp, write(1, 8));
  a.send(qp, write(2, 3 * kMtu));
  static_cast<void>(packets());
  arrive_ack(102, kSyndromeNakSequence);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kWriteMiddle, 102), asked(Opcode::kWriteLast, 103)));
  EXPECT_EQ(counters.packet_seq_err, 1u);
  EXPECT_EQ(counters.repeated, 2u);
}

TEST_F(RoceRequester, AnAcknowledgementBehindAReadSaysThatItIsLost) {
  a.send(qp, read(1, 8));
  a.send(qp, write(2, 8));
  static_cast<void>(packets());
  arrive_ack(101);
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kReadRequest, 100)));
  EXPECT_EQ(counters.implied_nak_seq_err, 1u);
  arrive_ack(101);
  EXPECT_THAT(packets(), IsEmpty()) << "it is on its way";
  arrive_data(Opcode::kReadResponseOnly, 100, 8, 1);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}));
}

TEST_F(RoceRequester, DataBehindAGapSaysWhatIsLost) {
  a.send(qp, read(1, 3 * kMtu));
  static_cast<void>(packets());
  arrive_data(Opcode::kReadResponseFirst, 100, kMtu, 1);
  arrive_data(Opcode::kReadResponseLast, 102, kMtu, 3);
  const auto out = packets();
  ASSERT_THAT(seen(out), ElementsAre(asked(Opcode::kReadRequest, 101)));
  EXPECT_EQ(out[0].remote_addr, 0x9000u + kMtu);
  EXPECT_EQ(out[0].dma_bytes, 2 * kMtu);
  // Here rxe continues its answer. Other responders begin a new one.
  arrive_data(Opcode::kReadResponseMiddle, 101, kMtu, 2);
  arrive_data(Opcode::kReadResponseLast, 102, kMtu, 3);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.bytes(mr, kMtu, kMtu), filled(kMtu, 2));
}

TEST_F(RoceRequester, AResultBehindAReadIsNotTaken) {
  a.send(qp, read(1, 8));
  a.send(qp, fetch_add(2));
  static_cast<void>(packets());
  arrive_answer(Opcode::kAtomicAcknowledge, 101, kSyndromeAck);
  EXPECT_THAT(sends_done(), IsEmpty());
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kReadRequest, 100), asked(Opcode::kFetchAdd, 101)));
  arrive_data(Opcode::kReadResponseOnly, 100, 8, 1);
  arrive_answer(Opcode::kAtomicAcknowledge, 101, kSyndromeAck);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2}));
}

// --- Data and results. ---

TEST_F(RoceRequester, DataIsJudgedByNumberAndLength) {
  a.send(qp, read(1, kMtu + 4));
  arrive_data(Opcode::kReadResponseOnly, 100, kMtu - 1, 7);
  arrive_data(Opcode::kReadResponseFirst, 101, kMtu, 7);
  EXPECT_EQ(counters.bad_response, 2u);
  EXPECT_EQ(a.bytes(mr, 0, 8), Bytes(8));
  arrive_data(Opcode::kReadResponseMiddle, 100, kMtu, 1);
  arrive_data(Opcode::kReadResponseFirst, 100, kMtu, 9);  // a duplicate, with other data
  arrive_data(Opcode::kReadResponseMiddle, 101, 4, 2);
  EXPECT_EQ(counters.bad_response, 2u);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.bytes(mr, 0, kMtu), filled(kMtu, 1));
  EXPECT_EQ(a.bytes(mr, kMtu, 4), filled(4, 2));
}

TEST_F(RoceRequester, AnswersOfAnotherKindAreNone) {
  a.send(qp, write(1, 8));
  a.send(qp, fetch_add(2));
  arrive_data(Opcode::kReadResponseOnly, 100, 8, 1);
  arrive_answer(Opcode::kAtomicAcknowledge, 100, kSyndromeAck);
  arrive_data(Opcode::kReadResponseOnly, 101, 8, 1);
  EXPECT_EQ(counters.bad_response, 3u);
  EXPECT_THAT(sends_done(), IsEmpty());
  EXPECT_FALSE(failed());
}

TEST_F(RoceRequester, AnAtomicsResultGoesToItsMemory) {
  verbs::SendWr wr = fetch_add(1, 5);
  wr.remote_addr = 0x9008;
  a.send(qp, wr);
  const auto out = packets();
  ASSERT_THAT(seen(out), ElementsAre(asked(Opcode::kFetchAdd, 100)));
  EXPECT_EQ(out[0].swap_or_add, 5u);
  EXPECT_EQ(out[0].remote_addr, 0x9008u);
  EXPECT_TRUE(out[0].ack_request);
  Packet answer;
  answer.opcode = Opcode::kAtomicAcknowledge;
  answer.psn = verbs::Psn(100);
  answer.syndrome = kSyndromeAck;
  answer.atomic_original = 1234;
  arrive(answer);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.word(mr, 0), 1234u);
}

// --- Refusals. ---

class RoceRefused : public RoceRequester,
                    public ::testing::WithParamInterface<std::pair<std::uint8_t, CompletionStatus>> {};

TEST_P(RoceRefused, EndsTheWorkRequestAndTheQp) {
  a.send(qp, write(1, 8));
  a.send(qp, write(2, 2 * kMtu));
  a.send(qp, write(3, 8));
  arrive_ack(102, GetParam().first);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2, GetParam().second},
                                        Completion{3, CompletionStatus::kFlushed}));
  EXPECT_TRUE(failed());
  static_cast<void>(packets());
  arrive_ack(103);
  EXPECT_THAT(packets(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Codes, RoceRefused,
    ::testing::Values(std::pair(kSyndromeNakInvalidRequest, CompletionStatus::kRemoteInvalidRequest),
                      std::pair(kSyndromeNakRemoteAccess, CompletionStatus::kRemoteAccess),
                      std::pair(kSyndromeNakRemoteOperational, CompletionStatus::kRemoteOperation),
                      // Syndromes that the specification reserves.
                      std::pair(std::uint8_t{0x41}, CompletionStatus::kRemoteOperation),
                      std::pair(std::uint8_t{0x64}, CompletionStatus::kRemoteOperation),
                      std::pair(std::uint8_t{0x7f}, CompletionStatus::kRemoteOperation)));

TEST_F(RoceRequester, AReadMayBeRefusedHalfWay) {
  a.send(qp, read(1, 2 * kMtu));
  arrive_data(Opcode::kReadResponseFirst, 100, kMtu, 1);
  arrive_ack(101, kSyndromeNakRemoteAccess);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kRemoteAccess}));
}

// --- The peer is not ready. ---

TEST_F(RoceRequester, APauseIsKeptWhateverElseThePeerSays) {
  a.send(qp, write(1, 8));
  a.send(qp, send_wr(2, 8));
  a.send(qp, write(3, 8));
  static_cast<void>(packets());
  arrive_ack(101, kSyndromeRnrNak | 12);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  arrive_ack(101, kSyndromeNakSequence);  // for a packet that was in flight behind it
  advance(verbs::kRnrDelay - std::chrono::microseconds(1));
  EXPECT_THAT(packets(), IsEmpty());
  advance(std::chrono::microseconds(1));
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kSendOnly, 101), asked(Opcode::kWriteOnly, 102)));
  arrive_ack(102);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{2}, Completion{3}));
  EXPECT_EQ(window(), CongestionWindow::kFirst) << "nothing was lost";
}

// A responder whose memory is not present yet (on-demand paging) refuses reads and atomics like that.
TEST_F(RoceRequester, APauseIsKeptForAReadAndAnAtomic) {
  a.send(qp, read(1, 2 * kMtu));
  a.send(qp, fetch_add(2));
  static_cast<void>(packets());
  arrive_data(Opcode::kReadResponseFirst, 100, kMtu, 1);
  arrive_ack(101, kSyndromeRnrNak | 12);
  advance(verbs::kRnrDelay - std::chrono::microseconds(1));
  EXPECT_THAT(packets(), IsEmpty());
  advance(std::chrono::microseconds(1));
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kReadRequest, 101), asked(Opcode::kFetchAdd, 102)));
  arrive_data(Opcode::kReadResponseOnly, 101, kMtu, 2);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
  arrive_ack(102, kSyndromeRnrNak | 12);
  advance(verbs::kRnrDelay);
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kFetchAdd, 102)));
  arrive_answer(Opcode::kAtomicAcknowledge, 102, kSyndromeAck);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{2}));
  EXPECT_EQ(window(), CongestionWindow::kFirst) << "nothing was lost";
}

TEST_F(RoceRequester, APeerThatIsNeverReadyEndsTheQp) {
  for (const verbs::SendWr& wr : {send_wr(1, 8), read(1, 8), fetch_add(1)}) {
    a.reset(qp);
    a.connect(qp, verbs::kPeer, connection());
    a.send(qp, wr);
    for (int i = 0; i < 4; ++i) {
      EXPECT_FALSE(failed());
      arrive_ack(100, kSyndromeRnrNak | 12);
      advance(verbs::kRnrDelay);
    }
    EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kRnrRetryExceeded}));
  }
}

// --- The window. ---

TEST_F(RoceRequester, AWindowIsHalvedOnceForAllThatWasOut) {
  EXPECT_EQ(window(), 64u);
  arrive_ack(100, kSyndromeNakSequence);
  EXPECT_EQ(packets().size(), 32u);
  arrive_ack(100, kSyndromeNakSequence);
  EXPECT_EQ(packets().size(), 32u);
  arrive_ack(163);  // all packets that were in flight the first time
  EXPECT_EQ(packets().size(), 33u);
  arrive_ack(164, kSyndromeNakSequence);
  EXPECT_EQ(packets().size(), 16u);
}

TEST_F(RoceRequester, AWindowGrowsByAPacketForEachConfirmed) {
  EXPECT_EQ(window(), 64u);
  arrive_ack(163);
  EXPECT_EQ(packets().size(), 65u);
}

TEST_F(RoceRequester, ACongestionNotificationHalvesTheWindow) {
  a.send(qp, write(1, 8));
  arrive_ack(100);
  static_cast<void>(packets());
  Packet told;
  told.opcode = Opcode::kCongestionNotification;
  told.becn = true;
  arrive(told, Bytes(16));
  EXPECT_EQ(counters.rp_cnp_handled, 1u);
  EXPECT_EQ(window(), 32u);
}

TEST_F(RoceRequester, FewPacketsGoOutAgainAsLongAsNobodyAnswers) {
  EXPECT_EQ(window(), 64u);
  advance(RoundTrip::kFirst);
  EXPECT_EQ(packets().size(), CongestionWindow::kLeast);
  arrive_ack(163);  // nothing was lost
  EXPECT_THAT(sent_packets(), AllOf(SizeIs(33), Contains(asked(Opcode::kWriteMiddle, 164))));
  EXPECT_EQ(counters.repeated, CongestionWindow::kLeast);
}

TEST_F(RoceRequester, WhatArrivedAndIsAnsweredLateIsNotSentAgain) {
  EXPECT_EQ(window(), 64u);
  advance(RoundTrip::kFirst);
  EXPECT_EQ(packets().size(), CongestionWindow::kLeast);
  arrive_ack(103);
  EXPECT_THAT(sent_packets(), Contains(asked(Opcode::kWriteMiddle, 104))) << "that may answer the repetition";
  static_cast<void>(packets());
  advance(2 * RoundTrip::kFirst);
  EXPECT_EQ(packets().size(), CongestionWindow::kLeast);
  const std::uint64_t repeated = counters.repeated;
  arrive_ack(115);  // for packets that were sent once: nothing is lost so far
  EXPECT_THAT(packets(), IsEmpty());
  arrive_ack(147);
  EXPECT_THAT(sent_packets(), Contains(asked(Opcode::kWriteMiddle, 164)));
  EXPECT_EQ(counters.repeated, repeated);
}

TEST_F(RoceRequester, WhatIsLostBehindALateAnswerIsSentAgain) {
  EXPECT_EQ(window(), 64u);
  advance(RoundTrip::kFirst);
  static_cast<void>(packets());
  arrive_ack(115);
  EXPECT_THAT(packets(), IsEmpty());
  arrive_ack(120, kSyndromeNakSequence);
  EXPECT_THAT(sent_packets(), Contains(asked(Opcode::kWriteMiddle, 120)));
  arrive_ack(130);
  static_cast<void>(packets());
  advance(4 * RoundTrip::kFirst);
  EXPECT_THAT(sent_packets(), Contains(asked(Opcode::kWriteMiddle, 131))) << "nobody answered";
}

// --- No answers. ---

TEST_F(RoceRequester, RepetitionsAreEarlyAndLeaveTheGuestsTime) {
  a.send(qp, write(1, 8));
  EXPECT_THAT(packets(), SizeIs(1));
  const Instant begin = a.now;
  const Duration patience = 4 * verbs::kAckTimeout;  // retry_cnt 3
  std::size_t repeated = 0;
  while (sends_done().empty()) {
    ASSERT_LT(a.now, begin + 2 * patience);
    advance(std::chrono::milliseconds(1));
    repeated += packets().size();
  }
  EXPECT_GE(a.now, begin + patience);
  EXPECT_LE(a.now, begin + patience + std::chrono::milliseconds(5));
  EXPECT_GT(repeated, 3u) << "more often than the guest's own time says";
  EXPECT_TRUE(failed());
}

TEST_F(RoceRequester, ALongMessageIsRepeatedInTheGuestsTime) {
  a.reset(qp);
  a.connect(qp, verbs::kPeer, {.timeout = 10});  // a time below RoundTrip::kFirst
  EXPECT_EQ(window(), CongestionWindow::kFirst) << "the rest waits for room";
  advance(verbs::ack_timeout(10));
  EXPECT_THAT(packets(), SizeIs(CongestionWindow::kLeast));
}

TEST_F(RoceRequester, ALostTailIsRepeatedAfterSomeRoundTrips) {
  a.send(qp, write(1, 8));
  advance(std::chrono::milliseconds(3));
  arrive_ack(100);
  a.send(qp, write(2, 8));
  static_cast<void>(packets());
  advance(std::chrono::microseconds(11'999));
  EXPECT_THAT(packets(), IsEmpty());
  advance(std::chrono::microseconds(1));
  EXPECT_THAT(sent_packets(), ElementsAre(asked(Opcode::kWriteOnly, 101)));
  advance(std::chrono::milliseconds(23));
  EXPECT_THAT(packets(), IsEmpty());
  advance(std::chrono::milliseconds(1));
  EXPECT_THAT(packets(), SizeIs(1)) << "twice as long";
}

}  // namespace
}  // namespace pvrdma::roce
