// The responder of a connection: what it executes and answers for each packet that a peer may send in any
// state (IBTA vol. 1, 9.7.4 and 9.7.5).
#include "roce/connection_fixture.h"

namespace pvrdma::roce {
namespace {

using abi::CompletionStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using verbs::Completion;
using verbs::kRqPsn;

class RoceResponder : public ConnectionTest {
 protected:
  // Whether no byte of the buffer was written.
  bool untouched(std::size_t bytes) { return a.bytes(mr, 0, bytes) == Bytes(bytes); }
  void post_receive(std::uint64_t wr_id, std::uint32_t bytes) {
    a.receive(qp, receive_of(wr_id, 0x8000, bytes));
  }
};

// --- In order. ---

TEST_F(RoceResponder, WritesOfOnePacketAreExecutedAndAcknowledged) {
  arrive_write(kRqPsn, 100);
  EXPECT_EQ(a.bytes(mr, 0, 100), filled(100));
  const auto out = answered();
  EXPECT_THAT(seen(out), ElementsAre(acknowledged(kRqPsn)));
  EXPECT_EQ(out[0].msn, 1u);
  EXPECT_EQ(query().rq_psn, kRqPsn + 1);
}

TEST_F(RoceResponder, WritesOfManyPacketsGoWhereTheFirstSaid) {
  Packet first = asking(Opcode::kWriteFirst, kRqPsn);
  first.dma_bytes = 2 * kMtu + 7;
  first.ack_request = false;
  Packet middle = asking(Opcode::kWriteMiddle, kRqPsn + 1);
  middle.remote_addr = middle.rkey = 0;
  middle.ack_request = false;
  Packet last = middle;
  last.opcode = Opcode::kWriteLast;
  last.psn = verbs::Psn(kRqPsn + 2);
  last.ack_request = true;
  arrive(first, filled(kMtu, 1));
  arrive(middle, filled(kMtu, 2));
  EXPECT_THAT(answers(), IsEmpty()) << "nobody asked";
  forget();  // the engine knows where the write continues
  arrive(last, filled(7, 3));
  const auto out = answered();
  EXPECT_THAT(seen(out), ElementsAre(acknowledged(kRqPsn + 2)));
  EXPECT_EQ(out[0].msn, 1u);
  EXPECT_EQ(a.bytes(mr, 0, kMtu), filled(kMtu, 1));
  EXPECT_EQ(a.bytes(mr, kMtu, kMtu), filled(kMtu, 2));
  EXPECT_EQ(a.bytes(mr, 2 * kMtu, 8), [] {
    Bytes end = filled(7, 3);
    end.push_back(std::byte{0});
    return end;
  }());
}

TEST_F(RoceResponder, SendsTellTheirLengthAtTheEnd) {
  post_receive(5, 4 * kMtu);
  arrive(asking(Opcode::kSendFirst, kRqPsn), filled(kMtu, 1));
  arrive(asking(Opcode::kSendMiddle, kRqPsn + 1), filled(kMtu, 2));
  EXPECT_THAT(receives_done(), IsEmpty());
  Packet last = asking(Opcode::kSendLastImmediate, kRqPsn + 2);
  last.immediate = 0x11223344;
  arrive(last, filled(1, 3));
  EXPECT_THAT(answers(), ElementsAre(acknowledged(kRqPsn + 2))) << "one for all";
  const auto done = a.poll_cqes(recv_cq);
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].wr_id, 5u);
  EXPECT_EQ(done[0].byte_len, 2 * kMtu + 1);
  EXPECT_EQ(a.bytes(mr, 0x8000 + kMtu, kMtu), filled(kMtu, 2));
}

TEST_F(RoceResponder, PacketNumbersWrap) {
  a.reset(qp);
  a.connect(qp, verbs::kPeer, {.rq_psn = verbs::Psn::kMask});
  arrive_write(0);
  EXPECT_THAT(answers(), ElementsAre(refused(verbs::Psn::kMask, kSyndromeNakSequence))) << "early";
  arrive_write(verbs::Psn::kMask);
  arrive_write(0);
  EXPECT_THAT(answers(), ElementsAre(acknowledged(0)));
  arrive_write(verbs::Psn::kMask);
  EXPECT_THAT(answers(), ElementsAre(acknowledged(0))) << "repeated";
  EXPECT_EQ(counters.duplicate_request, 1u);
}

// --- Early requests. ---

TEST_F(RoceResponder, AGapIsToldOnce) {
  arrive_write(kRqPsn + 1);
  arrive_write(kRqPsn + 2);
  EXPECT_THAT(answers(), ElementsAre(refused(kRqPsn, kSyndromeNakSequence)));
  arrive_write(kRqPsn + 3);
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_TRUE(untouched(8));
  EXPECT_EQ(counters.out_of_sequence, 3u);
  arrive_write(kRqPsn);
  EXPECT_THAT(answers(), ElementsAre(acknowledged(kRqPsn)));
  arrive_write(kRqPsn + 2);
  EXPECT_THAT(answers(), ElementsAre(refused(kRqPsn + 1, kSyndromeNakSequence))) << "another gap";
  EXPECT_FALSE(failed());
}

TEST_F(RoceResponder, AMessageGoesOnBehindAGap) {
  Packet first = asking(Opcode::kWriteFirst, kRqPsn);
  first.dma_bytes = 2 * kMtu + 1;
  arrive(first, filled(kMtu, 1));
  arrive(asking(Opcode::kWriteLast, kRqPsn + 2), filled(1, 3));
  EXPECT_THAT(answers(), ElementsAre(refused(kRqPsn + 1, kSyndromeNakSequence), acknowledged(kRqPsn)));
  arrive(asking(Opcode::kWriteMiddle, kRqPsn + 1), filled(kMtu, 2));
  arrive(asking(Opcode::kWriteLast, kRqPsn + 2), filled(1, 3));
  EXPECT_THAT(answers(), ElementsAre(acknowledged(kRqPsn + 2)));
  EXPECT_EQ(a.bytes(mr, kMtu, kMtu), filled(kMtu, 2));
}

// --- Repeated requests. ---

TEST_F(RoceResponder, ARepeatedWriteIsAcknowledgedAndNotExecuted) {
  arrive_write(kRqPsn);
  arrive_write(kRqPsn + 1);
  EXPECT_THAT(answers(), ElementsAre(acknowledged(kRqPsn + 1)));
  a.fill(mr, 0, 8, 77);
  Packet again = asking(Opcode::kWriteOnly, kRqPsn);
  again.dma_bytes = 8;
  again.ack_request = false;
  arrive(again, filled(8));
  EXPECT_THAT(answers(), ElementsAre(acknowledged(kRqPsn + 1))) << "of all there is, asked for or not";
  EXPECT_EQ(a.bytes(mr, 0, 8), filled(8, 77));
}

TEST_F(RoceResponder, ARepeatedReadMayAskForAPart) {
  a.fill(mr, 0, 4 * kMtu, 9);
  arrive(reading(kRqPsn, 3 * kMtu));
  EXPECT_THAT(answers(), SizeIs(3));
  arrive(reading(kRqPsn + 1, 2 * kMtu, kMtu));
  const auto out = answered();
  EXPECT_THAT(seen(out), ElementsAre(Seen{Opcode::kReadResponseFirst, kRqPsn + 1, kSyndromeAck},
                                     Seen{Opcode::kReadResponseLast, kRqPsn + 2, kSyndromeAck}));
  EXPECT_EQ(payload_of(out[0]), a.bytes(mr, kMtu, kMtu));
  EXPECT_EQ(query().rq_psn, kRqPsn + 3);
}

TEST_F(RoceResponder, ARepeatedReadReplacesWhatIsOwed) {
  arrive(reading(kRqPsn, 4 * kMtu));
  EXPECT_THAT(answered(2), SizeIs(2));
  arrive(reading(kRqPsn + 1, 3 * kMtu, kMtu));
  EXPECT_THAT(answers(), ElementsAre(Seen{Opcode::kReadResponseFirst, kRqPsn + 1, kSyndromeAck},
                                     Seen{Opcode::kReadResponseMiddle, kRqPsn + 2},
                                     Seen{Opcode::kReadResponseLast, kRqPsn + 3, kSyndromeAck}));
  EXPECT_EQ(counters.answers_dropped, 1u);
}

TEST_F(RoceResponder, ARepeatedAtomicIsAnsweredFromMemory) {
  a.set_word(mr, 0, 40);
  arrive(adding(kRqPsn, 2));
  arrive(adding(kRqPsn + 1, 8));
  auto out = answered();
  ASSERT_THAT(seen(out), ElementsAre(Seen{Opcode::kAtomicAcknowledge, kRqPsn, kSyndromeAck},
                                     Seen{Opcode::kAtomicAcknowledge, kRqPsn + 1, kSyndromeAck}));
  EXPECT_EQ(out[0].atomic_original, 40u);
  EXPECT_EQ(out[1].atomic_original, 42u);
  EXPECT_EQ(out[1].msn, 2u);
  forget();
  arrive(adding(kRqPsn, 2));
  out = answered();
  ASSERT_THAT(seen(out), ElementsAre(Seen{Opcode::kAtomicAcknowledge, kRqPsn, kSyndromeAck}));
  EXPECT_EQ(out[0].atomic_original, 40u);
  EXPECT_EQ(a.word(mr, 0), 50u);
}

TEST_F(RoceResponder, AnAtomicThatIsForgottenIsNotAnswered) {
  arrive_write(kRqPsn);
  EXPECT_THAT(answers(), SizeIs(1));
  arrive(adding(kRqPsn, 2));  // no atomic had that PSN
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_FALSE(failed());
}

// --- Answers leave in order. ---

TEST_F(RoceResponder, AcknowledgementsAreGathered) {
  for (std::uint32_t i = 0; i < 5; ++i) arrive_write(kRqPsn + i);
  const auto out = answered();
  EXPECT_THAT(seen(out), ElementsAre(acknowledged(kRqPsn + 4)));
  EXPECT_EQ(out[0].msn, 5u);
}

TEST_F(RoceResponder, AcknowledgementsWaitForTheReadsBeforeThem) {
  arrive(reading(kRqPsn, 3 * kMtu + 1));
  arrive_write(kRqPsn + 4);
  EXPECT_EQ(a.bytes(mr, 0, 8), filled(8)) << "executed at once";
  EXPECT_THAT(seen(answered(2)), ElementsAre(Seen{Opcode::kReadResponseFirst, kRqPsn, kSyndromeAck},
                                             Seen{Opcode::kReadResponseMiddle, kRqPsn + 1}));
  sink.free = 1;
  EXPECT_THAT(answers(), ElementsAre(Seen{Opcode::kReadResponseMiddle, kRqPsn + 2}));
  EXPECT_TRUE(over().answerer.owes());
  sink.free = 10;
  EXPECT_THAT(answers(), ElementsAre(Seen{Opcode::kReadResponseLast, kRqPsn + 3, kSyndromeAck},
                                     acknowledged(kRqPsn + 4)));
  EXPECT_FALSE(over().answerer.owes());
}

TEST_F(RoceResponder, ReadsAndAtomicsAreAnsweredInTheirOrder) {
  a.set_word(mr, 0, 7);
  arrive(reading(kRqPsn, 8));
  arrive(adding(kRqPsn + 1, 1));
  arrive(reading(kRqPsn + 2, 0));
  const auto out = answered();
  EXPECT_THAT(seen(out), ElementsAre(Seen{Opcode::kReadResponseOnly, kRqPsn, kSyndromeAck},
                                     Seen{Opcode::kAtomicAcknowledge, kRqPsn + 1, kSyndromeAck},
                                     Seen{Opcode::kReadResponseOnly, kRqPsn + 2, kSyndromeAck}));
  EXPECT_EQ(out[0].payload.size(), 8u);
  EXPECT_EQ(out[2].payload.size(), 0u);
  EXPECT_EQ(out[2].msn, 3u);
}

TEST_F(RoceResponder, WhatCannotBeOwedHasNotCome) {
  for (std::uint32_t i = 0; i < OwedAnswers::kMost; ++i) arrive(reading(kRqPsn + i, 8));
  arrive(reading(kRqPsn + OwedAnswers::kMost, 8));
  EXPECT_EQ(counters.resources_exceeded, 1u);
  EXPECT_EQ(query().rq_psn, kRqPsn + OwedAnswers::kMost);
  EXPECT_THAT(answers(), SizeIs(OwedAnswers::kMost));
  arrive(reading(kRqPsn + OwedAnswers::kMost, 8));
  EXPECT_THAT(answers(),
              ElementsAre(Seen{Opcode::kReadResponseOnly, kRqPsn + OwedAnswers::kMost, kSyndromeAck}));
  EXPECT_FALSE(failed());
}

TEST_F(RoceResponder, AWriteBehindAsManyReadsAsThereMayBeIsExecuted) {
  for (std::uint32_t i = 0; i < verbs::kRdAtomicMax; ++i) arrive(reading(kRqPsn + i, 8));
  arrive_write(kRqPsn + verbs::kRdAtomicMax);
  EXPECT_EQ(counters.resources_exceeded, 0u);
  EXPECT_THAT(answers(), SizeIs(verbs::kRdAtomicMax + 1));
}

TEST_F(RoceResponder, ARepeatedReadGetsNoMoreThanTheFirst) {
  arrive(reading(kRqPsn, 2 * kMtu));
  EXPECT_THAT(answered(), SizeIs(2));
  for (const std::uint32_t bytes : {2 * kMtu + 1, kDmaBytesMax, ~0U}) {
    arrive(reading(kRqPsn, bytes));
    EXPECT_THAT(answers(), IsEmpty()) << bytes;
  }
  arrive(reading(kRqPsn + 1, kMtu, kMtu));
  EXPECT_THAT(answers(), ElementsAre(Seen{Opcode::kReadResponseOnly, kRqPsn + 1, kSyndromeAck}));
  EXPECT_FALSE(failed());
}

// Where the packets of a read are as many as there are packet numbers.
class RoceResponderSmallestMtu : public RoceResponder {
  verbs::ConnectOptions connection() const override { return {.path_mtu = abi::Mtu::k256}; }
};

TEST_F(RoceResponderSmallestMtu, ARepeatedReadGetsNoMoreThanTheFirst) {
  arrive(reading(kRqPsn, 512));
  EXPECT_THAT(answered(), SizeIs(2));
  for (const std::uint32_t bytes : {513U, kDmaBytesMax, kDmaBytesMax + 1, ~0U}) {
    arrive(reading(kRqPsn, bytes));
    EXPECT_THAT(answers(), IsEmpty()) << bytes;
  }
  arrive(reading(kRqPsn, 512));
  EXPECT_THAT(answered(), SizeIs(2));
}

TEST_F(RoceResponder, MemoryThatVanishesEndsAReadHalfWay) {
  const auto gone = a.make_mr(4 * kMtu);
  Packet read = reading(kRqPsn, 3 * kMtu);
  read.rkey = gone.key;
  arrive(read);
  arrive(adding(kRqPsn + 3, 1));
  EXPECT_THAT(answered(1), SizeIs(1));
  ASSERT_TRUE(a.engine.destroy_mr(gone.handle));
  arrive_write(kRqPsn + 4);
  EXPECT_THAT(answers(), ElementsAre(refused(kRqPsn + 1, kSyndromeNakRemoteAccess)));
  EXPECT_TRUE(failed());
}

TEST_F(RoceResponder, MemoryThatVanishesRefusesARepeatedRead) {
  const auto gone = a.make_mr(4 * kMtu);
  Packet read = reading(kRqPsn, 3 * kMtu);
  read.rkey = gone.key;
  arrive(read);
  EXPECT_THAT(answered(), SizeIs(3));
  ASSERT_TRUE(a.engine.destroy_mr(gone.handle));
  arrive(read);
  EXPECT_THAT(answers(), ElementsAre(refused(kRqPsn, kSyndromeNakRemoteAccess)));
  EXPECT_FALSE(failed()) << "the first answer may have arrived";
}

// --- No receive. ---

TEST_F(RoceResponder, WithoutAReceiveThePeerIsToComeBack) {
  arrive(asking(Opcode::kSendOnly, kRqPsn), filled(10));
  arrive_write(kRqPsn + 1);  // this one was in flight behind it
  EXPECT_THAT(answers(), ElementsAre(refused(kRqPsn, kSyndromeRnrNak | 12)));
  EXPECT_TRUE(untouched(8));
  post_receive(1, 64);
  arrive(asking(Opcode::kSendOnly, kRqPsn), filled(10));
  arrive_write(kRqPsn + 1);
  EXPECT_THAT(answers(), ElementsAre(acknowledged(kRqPsn + 1)));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
}

TEST_F(RoceResponder, AWriteWithImmediateNeedsAReceiveAtItsEnd) {
  Packet first = asking(Opcode::kWriteFirst, kRqPsn);
  first.dma_bytes = kMtu + 1;
  arrive(first, filled(kMtu));
  Packet last = asking(Opcode::kWriteLastImmediate, kRqPsn + 1);
  arrive(last, filled(1));
  EXPECT_THAT(answers(), ElementsAre(refused(kRqPsn + 1, kSyndromeRnrNak | 12), acknowledged(kRqPsn)));
  post_receive(1, 0);
  arrive(last, filled(1));
  EXPECT_THAT(answers(), ElementsAre(acknowledged(kRqPsn + 1)));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
}

// --- Refusals: the answer names the packet, and the QP fails. ---

struct Refusal {
  const char* name;
  std::vector<std::pair<Opcode, std::uint32_t>> script;  // the packets, with the payload bytes of each
  std::uint32_t dma_bytes = 8;
  std::uint32_t receive_bytes = 0;  // the length of the posted receive; 0: none is posted
  std::uint64_t beyond = 0;         // added to the address
  std::uint32_t other_key = 0;      // added to the rkey
  std::uint8_t syndrome = kSyndromeNakInvalidRequest;
};

class RoceRefusal : public RoceResponder, public ::testing::WithParamInterface<Refusal> {};

TEST_P(RoceRefusal, NamesThePacket) {
  const Refusal& refusal = GetParam();
  if (refusal.receive_bytes != 0) post_receive(1, refusal.receive_bytes);
  std::uint32_t psn = kRqPsn;
  for (const auto& [opcode, bytes] : refusal.script) {
    EXPECT_FALSE(failed());
    Packet packet = asking(opcode, psn++);
    packet.ack_request = false;
    packet.dma_bytes = refusal.dma_bytes;
    packet.remote_addr += refusal.beyond;
    packet.rkey += refusal.other_key;
    arrive(packet, filled(bytes));
  }
  EXPECT_THAT(answers(), ElementsAre(refused(psn - 1, refusal.syndrome)));
  EXPECT_TRUE(failed());
  arrive_write(psn);
  arrive_write(psn - 1);
  EXPECT_THAT(answers(), IsEmpty());
}

constexpr auto kBeyond = std::uint64_t{verbs::kMrBytes};

INSTANTIATE_TEST_SUITE_P(
    Sequence, RoceRefusal,
    ::testing::Values(Refusal{.name = "MiddleOfNothing", .script = {{Opcode::kWriteMiddle, kMtu}}},
                      Refusal{.name = "LastOfNothing", .script = {{Opcode::kWriteLast, 8}}},
                      Refusal{.name = "SendMiddleOfNothing", .script = {{Opcode::kSendMiddle, kMtu}}},
                      Refusal{.name = "SendLastOfNothing", .script = {{Opcode::kSendLast, 8}}},
                      Refusal{.name = "FirstInAMessage",
                              .script = {{Opcode::kWriteFirst, kMtu}, {Opcode::kWriteFirst, kMtu}},
                              .dma_bytes = 3000},
                      Refusal{.name = "OnlyInAMessage",
                              .script = {{Opcode::kWriteFirst, kMtu}, {Opcode::kWriteOnly, 8}},
                              .dma_bytes = 3000},
                      Refusal{.name = "ReadInAMessage",
                              .script = {{Opcode::kWriteFirst, kMtu}, {Opcode::kReadRequest, 0}},
                              .dma_bytes = 3000},
                      Refusal{.name = "AtomicInAMessage",
                              .script = {{Opcode::kWriteFirst, kMtu}, {Opcode::kFetchAdd, 0}},
                              .dma_bytes = 3000},
                      Refusal{.name = "SendGoesOnAsWrite",
                              .script = {{Opcode::kSendFirst, kMtu}, {Opcode::kWriteLast, 8}},
                              .receive_bytes = 4096},
                      Refusal{.name = "WriteGoesOnAsSend",
                              .script = {{Opcode::kWriteFirst, kMtu}, {Opcode::kSendLast, 8}},
                              .dma_bytes = kMtu + 8}),
    [](const auto& tested) { return std::string(tested.param.name); });

// FLUSH, ATOMIC WRITE, and what the specification reserves.
INSTANTIATE_TEST_SUITE_P(
    Opcode, RoceRefusal,
    ::testing::Values(Refusal{.name = "Unsupported", .script = {{Opcode::kUnsupportedRequest, 40}}},
                      Refusal{.name = "UnsupportedInAMessage",
                              .script = {{Opcode::kWriteFirst, kMtu}, {Opcode::kUnsupportedRequest, 0}},
                              .dma_bytes = 3000}),
    [](const auto& tested) { return std::string(tested.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Length, RoceRefusal,
    ::testing::Values(
        Refusal{.name = "ShortFirst", .script = {{Opcode::kWriteFirst, kMtu - 1}}, .dma_bytes = 3000},
        Refusal{.name = "LongOnly", .script = {{Opcode::kWriteOnly, kMtu + 1}}, .dma_bytes = kMtu + 1},
        Refusal{.name = "ShortMiddle",
                .script = {{Opcode::kWriteFirst, kMtu}, {Opcode::kWriteMiddle, 4}},
                .dma_bytes = 3000},
        Refusal{
            .name = "ReadOfTooMuch", .script = {{Opcode::kReadRequest, 0}}, .dma_bytes = kDmaBytesMax + 1},
        Refusal{
            .name = "WriteOfTooMuch", .script = {{Opcode::kWriteFirst, kMtu}}, .dma_bytes = kDmaBytesMax + 1},
        Refusal{.name = "EmptyLast",
                .script = {{Opcode::kWriteFirst, kMtu}, {Opcode::kWriteLast, 0}},
                .dma_bytes = kMtu + 8},
        Refusal{.name = "WriteOfLessThanItSaid", .script = {{Opcode::kWriteOnly, 7}}},
        Refusal{.name = "WriteOfMoreThanItSaid", .script = {{Opcode::kWriteOnly, 9}}},
        Refusal{.name = "WriteEndsEarly",
                .script = {{Opcode::kWriteFirst, kMtu}, {Opcode::kWriteLast, 8}},
                .dma_bytes = 3000},
        Refusal{.name = "WriteDoesNotEnd",
                .script = {{Opcode::kWriteFirst, kMtu}, {Opcode::kWriteMiddle, kMtu}},
                .dma_bytes = 2 * kMtu},
        Refusal{.name = "FirstHoldsAll", .script = {{Opcode::kWriteFirst, kMtu}}, .dma_bytes = kMtu},
        Refusal{.name = "SendLongerThanItsReceive",
                .script = {{Opcode::kSendFirst, kMtu}, {Opcode::kSendLast, 2}},
                .receive_bytes = kMtu + 1},
        Refusal{.name = "SendGoesOnBehindItsReceive",
                .script = {{Opcode::kSendFirst, kMtu}},
                .receive_bytes = kMtu}),
    [](const auto& tested) { return std::string(tested.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Access, RoceRefusal,
    ::testing::Values(Refusal{.name = "MisalignedAtomic", .script = {{Opcode::kFetchAdd, 0}}, .beyond = 4},
                      Refusal{.name = "AtomicBeyond",
                              .script = {{Opcode::kCompareSwap, 0}},
                              .beyond = kBeyond,
                              .syndrome = kSyndromeNakRemoteAccess},
                      Refusal{.name = "WriteBeyond",
                              .script = {{Opcode::kWriteOnly, 8}},
                              .beyond = kBeyond - 7,
                              .syndrome = kSyndromeNakRemoteAccess},
                      Refusal{.name = "WriteThatWillEndBeyond",
                              .script = {{Opcode::kWriteFirst, kMtu}},
                              .dma_bytes = kMtu + 1,
                              .beyond = kBeyond - kMtu,
                              .syndrome = kSyndromeNakRemoteAccess},
                      Refusal{.name = "ReadBeyond",
                              .script = {{Opcode::kReadRequest, 0}},
                              .beyond = kBeyond - 7,
                              .syndrome = kSyndromeNakRemoteAccess},
                      Refusal{.name = "WriteWithAnotherKey",
                              .script = {{Opcode::kWriteOnly, 8}},
                              .other_key = 1,
                              .syndrome = kSyndromeNakRemoteAccess},
                      Refusal{.name = "ReadWithAnotherKey",
                              .script = {{Opcode::kReadRequest, 0}},
                              .other_key = 1,
                              .syndrome = kSyndromeNakRemoteAccess}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST_F(RoceResponder, ABrokenReceiveIsTheirOwnersFault) {
  a.receive(qp, {.wr_id = 1, .sges = {{mr.start, 64, mr.key + 1}}});
  arrive(asking(Opcode::kSendOnly, kRqPsn), filled(8));
  EXPECT_THAT(answers(), ElementsAre(refused(kRqPsn, kSyndromeNakRemoteOperational)));
  EXPECT_TRUE(failed());
}

TEST_F(RoceResponder, ReadsNeedResources) {
  a.reset(qp);
  a.connect(qp, verbs::kPeer, {.rq_psn = kRqPsn, .max_dest_rd_atomic = 0});
  arrive(reading(kRqPsn, 8));
  EXPECT_THAT(answers(), ElementsAre(refused(kRqPsn, kSyndromeNakInvalidRequest)));
  EXPECT_TRUE(failed());
}

// --- Congestion. ---

TEST_F(RoceResponder, MarkedPacketsAreToldNotTooOften) {
  Packet write = asking(Opcode::kWriteOnly, kRqPsn);
  write.dma_bytes = 8;
  arrive(write, filled(8), true);
  over().answerer.answer(over().ends, sink, 1);
  ASSERT_THAT(sink.frames, SizeIs(1));
  EXPECT_EQ(parse(sink.frames[0])->envelope.traffic_class, 48u << 2);  // DSCP, no ECN
  auto out = answered();
  ASSERT_THAT(seen(out), ElementsAre(Seen{Opcode::kCongestionNotification, 0}, acknowledged(kRqPsn)));
  EXPECT_TRUE(out[0].becn);
  EXPECT_EQ(payload_of(out[0]), Bytes(16));
  arrive(write, filled(8), true);
  EXPECT_THAT(answers(), ElementsAre(acknowledged(kRqPsn)));
  a.advance(std::chrono::microseconds(50));
  arrive(write, filled(8), true);
  EXPECT_THAT(answers(), SizeIs(2));
  EXPECT_EQ(counters.np_ecn_marked, 3u);
  EXPECT_EQ(counters.np_cnp_sent, 2u);
}

}  // namespace
}  // namespace pvrdma::roce
