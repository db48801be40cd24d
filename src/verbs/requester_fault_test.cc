// The send side of an RC QP when a work request cannot succeed: its completion, and what happens to the other
// work requests.
#include "verbs/connected_qp_fixture.h"

namespace pvrdma::verbs {
namespace {

using abi::CompletionStatus;
using abi::Opcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RequesterFaultTest : public ConnectedQp {};

class RefusedOpcode : public ConnectedQp, public ::testing::WithParamInterface<std::uint32_t> {};

// Opcodes that only the kernel may post, masked atomics, and numbers that are no opcode (reference 6.2, 9.2).
TEST_P(RefusedOpcode, EndsTheQpWithALocalQpOperationError) {
  a.post(qp,
         SendWr{.wr_id = 9, .opcode = static_cast<Opcode>(GetParam()), .flags = 0, .sges = {mr.sge(0, 8)}});
  a.send(qp, write(10));
  a.settle();
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_THAT(sends_done(), ElementsAre(Completion{9, CompletionStatus::kLocalQpOperation},
                                        Completion{10, CompletionStatus::kFlushed}));
  EXPECT_EQ(a.state(qp), abi::QpState::kErr);
}

INSTANTIATE_TEST_SUITE_P(Requester, RefusedOpcode,
                         ::testing::Values(7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0xffff'ffff));

class KernelRequesterFaultTest : public ConnectedQp {
 protected:
  KernelRequesterFaultTest() : ConnectedQp(0) {}
};

TEST_F(KernelRequesterFaultTest, MaskedAtomicsAreRefusedToo) {
  a.send(qp, with_sge(Opcode::kMaskedAtomicCmpAndSwp, 1, 8));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kLocalQpOperation}));
}

TEST_F(KernelRequesterFaultTest, InvalidatingAKeyThatIsNotValidEndsTheQp) {
  a.send(qp, SendWr{.wr_id = 3, .opcode = Opcode::kLocalInv, .extra = 0x4300});
  EXPECT_THAT(sends_done(), ElementsAre(Completion{3, CompletionStatus::kLocalQpOperation}));
}

TEST_F(RequesterFaultTest, AMessageBeyondOneGigabyteIsALengthError) {
  a.send(qp, SendWr{.wr_id = 1, .sges = {mr.sge(0, 0x4000'0000), mr.sge(0, 1)}});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kLocalLength}));
}

TEST_F(RequesterFaultTest, AnAtomicOfAnotherSizeThanEightIsALengthError) {
  a.send(qp, with_sge(Opcode::kAtomicFetchAndAdd, 1, 4));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kLocalLength}));
}

struct LocalFault {
  const char* name;
  SendWr (*make)(const TestMr& mr);
};
class BadSge : public ConnectedQp, public ::testing::WithParamInterface<LocalFault> {};

TEST_P(BadSge, EndsTheQpWithALocalProtectionError) {
  a.send(qp, GetParam().make(mr));
  a.settle();
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kLocalProtection}));
  EXPECT_EQ(a.state(qp), abi::QpState::kErr);
  EXPECT_EQ(a.engine.counters().local_errors, 1u);
  EXPECT_THAT(a.events.async, IsEmpty());  // the CQE tells the guest
}

INSTANTIATE_TEST_SUITE_P(Requester, BadSge,
                         ::testing::Values(LocalFault{"UnknownKey",
                                                      [](const TestMr& m) {
                                                        return SendWr{.sges = {{m.start, 8, m.key + 256}}};
                                                      }},
                                           LocalFault{"BeyondTheEnd",
                                                      [](const TestMr& m) {
                                                        return SendWr{.sges = {m.sge(kMrBytes - 4, 8)}};
                                                      }},
                                           LocalFault{"BeforeTheStart",
                                                      [](const TestMr& m) {
                                                        return SendWr{.sges = {{m.start - 1, 8, m.key}}};
                                                      }},
                                           LocalFault{"WrappingAddress",
                                                      [](const TestMr& m) {
                                                        return SendWr{.sges = {{UINT64_MAX - 3, 8, m.key}}};
                                                      }},
                                           LocalFault{"SecondElement",
                                                      [](const TestMr& m) {
                                                        return SendWr{.sges = {m.sge(0, 8), {m.start, 8, 0}}};
                                                      }}),
                         [](const auto& one) { return one.param.name; });

TEST_F(RequesterFaultTest, TooManySgesEndTheQpWithALocalQpOperationError) {
  a.send(qp, SendWr{.sges = {mr.sge(0, 1), mr.sge(0, 1), mr.sge(0, 1), mr.sge(0, 1)}});
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kLocalQpOperation}));
}

TEST_F(RequesterFaultTest, AFaultWaitsForEarlierWorkAndStopsLaterWork) {
  a.post(qp, write(1));
  a.post(qp, SendWr{.wr_id = 2, .sges = {{mr.start, 8, 0}}});
  a.post(qp, write(3));
  a.ring(qp);
  a.settle();
  EXPECT_THAT(sent_numbers(), ElementsAre(100));
  EXPECT_THAT(sends_done(), IsEmpty());
  ack(100);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2, CompletionStatus::kLocalProtection},
                                        Completion{3, CompletionStatus::kFlushed}));
}

TEST_F(RequesterFaultTest, ReadDataForMemoryThatMayNotBeWrittenEndsTheQp) {
  const TestMr read_only = a.make_mr(4096, abi::kAccessRemoteRead);
  a.send(qp, SendWr{.wr_id = 1, .opcode = Opcode::kRdmaRead, .sges = {read_only.sge(0, 16)}});
  read_data(100, 0, TestAdapter::pattern_bytes(16, 1));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kLocalProtection}));
  EXPECT_EQ(a.bytes(read_only, 0, 16), std::vector<std::byte>(16));
}

TEST_F(RequesterFaultTest, NothingIsSentAfterAFaultFoundInAnAnswer) {
  const TestMr read_only = a.make_mr(4096, abi::kAccessRemoteRead);
  a.post(qp, read(1));
  a.post(qp, SendWr{.wr_id = 2, .opcode = Opcode::kRdmaRead, .sges = {read_only.sge(0, 16)}});
  a.ring(qp);
  sent();
  read_data(101, 0, TestAdapter::pattern_bytes(16, 1));  // the answer to the first one is late
  a.send(qp, write(3));
  EXPECT_THAT(sent(), IsEmpty());
  read_data(100, 0, TestAdapter::pattern_bytes(64, 1));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2, CompletionStatus::kLocalProtection},
                                        Completion{3, CompletionStatus::kFlushed}));
}

TEST_F(RequesterFaultTest, WithoutMaxRdAtomicReadsAreRefusedLocally) {
  a.reset(qp);
  a.connect(qp, kPeer, {.max_rd_atomic = 0});
  a.send(qp, read(1));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1, CompletionStatus::kLocalQpOperation}));
}

// The limit of a drained QP may change. A read that was begun before goes on.
TEST_F(RequesterFaultTest, AReadThatWasBegunOutlivesItsLimit) {
  a.send(qp, read(1));
  EXPECT_THAT(sent(), SizeIs(1));
  ASSERT_TRUE(a.to_state(qp, abi::QpState::kSqd));
  abi::QpAttr none{};
  ASSERT_TRUE(a.modify(qp, abi::kQpAttrMaxQpRdAtomic, none));
  advance(kAckTimeout);  // its answer was lost
  EXPECT_THAT(sent(), SizeIs(1));
  read_data(100, 0, TestAdapter::pattern_bytes(64, 1));
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
}

struct NakCase {
  const char* name;
  Syndrome syndrome;
  CompletionStatus status;
};
class Refusal : public ConnectedQp, public ::testing::WithParamInterface<NakCase> {};

TEST_P(Refusal, EndsTheWorkRequestItNames) {
  for (std::uint64_t i = 1; i <= 3; ++i) a.post(qp, write(i));
  a.ring(qp);
  nak(101, GetParam().syndrome);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}, Completion{2, GetParam().status},
                                        Completion{3, CompletionStatus::kFlushed}));
  EXPECT_EQ(a.state(qp), abi::QpState::kErr);
  EXPECT_EQ(a.engine.counters().remote_errors, 1u);
  EXPECT_EQ(a.engine.counters().local_errors, 0u);
  EXPECT_THAT(a.events.async, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Requester, Refusal,
                         ::testing::Values(NakCase{"InvalidRequest", Syndrome::kNakInvalidRequest,
                                                   CompletionStatus::kRemoteInvalidRequest},
                                           NakCase{"Access", Syndrome::kNakRemoteAccess,
                                                   CompletionStatus::kRemoteAccess},
                                           NakCase{"Operational", Syndrome::kNakRemoteOperational,
                                                   CompletionStatus::kRemoteOperation}),
                         [](const auto& one) { return one.param.name; });

TEST_F(RequesterFaultTest, AnswersToNothingAndFromStrangersAreIgnored) {
  ack(kSqPsn);
  a.send(qp, write(1));
  ack(kSqPsn + 1);
  ack(kSqPsn - 1);
  nak(kSqPsn - 1, Syndrome::kNakRemoteAccess);
  SpanPayload nothing;
  a.engine.on_response(
      {.from = {test_gid(99), kPeer.qpn}, .to = a.endpoint(qp), .number = MessageNumber(kSqPsn)}, nothing,
      a.now);
  a.engine.on_response({.from = {kPeer.gid, Qpn(5)}, .to = a.endpoint(qp), .number = MessageNumber(kSqPsn)},
                       nothing, a.now);
  a.engine.on_response({.from = kPeer, .to = {test_gid(99), qp.qpn}, .number = MessageNumber(kSqPsn)},
                       nothing, a.now);
  a.engine.on_response({.from = kPeer, .to = {a.gid, Qpn(0xff'ffff)}, .number = MessageNumber(kSqPsn)},
                       nothing, a.now);
  EXPECT_THAT(sends_done(), IsEmpty());
  ack(kSqPsn);
  EXPECT_THAT(sends_done(), ElementsAre(Completion{1}));
}

}  // namespace
}  // namespace pvrdma::verbs
