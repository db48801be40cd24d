// The receive side of an RC QP when a request or a receive breaks a rule: the outcome at both ends, and the
// events.
#include "verbs/connected_qp_fixture.h"

namespace pvrdma::verbs {
namespace {

using abi::CompletionStatus;
using abi::EventType;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Event = RecordingEvents::Event;

class ResponderRefusalTest : public ConnectedQp {
 protected:
  explicit ResponderRefusalTest(UarIndex uar = 1) : ConnectedQp(uar) {}

  void expect_failed(Syndrome syndrome, std::vector<Event> events) {
    EXPECT_EQ(answered().syndrome, syndrome);
    EXPECT_EQ(a.state(qp), abi::QpState::kErr);
    EXPECT_EQ(a.events.async, events);
    EXPECT_THAT(a.events.failures, SizeIs(1));
  }
  Event event(EventType type) const { return {type, qp.handle.value}; }
};

TEST_F(ResponderRefusalTest, AReceiveTooShortEndsBothSides) {
  a.receive(qp, receive_of(1, 0, 10));
  a.receive(qp, receive_of(2, 0, 10));
  ask_filled(request(RequestOp::kSend, kRqPsn, 11));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kLocalLength},
                                           Completion{2, CompletionStatus::kFlushed}));
  expect_failed(Syndrome::kNakInvalidRequest, {});
}

TEST_F(ResponderRefusalTest, AReceiveWithABadKeyEndsBothSides) {
  a.receive(qp, {.wr_id = 1, .sges = {{mr.start, 64, mr.key + 256}}});
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kLocalProtection}));
  expect_failed(Syndrome::kNakRemoteOperational, {});
}

TEST_F(ResponderRefusalTest, AReceiveIntoReadOnlyMemoryEndsBothSides) {
  const TestMr read_only = a.make_mr(4096, abi::kAccessRemoteRead);
  a.receive(qp, {.wr_id = 1, .sges = {read_only.sge(0, 64)}});
  ask_filled(request(RequestOp::kSend, kRqPsn, 8));
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kLocalProtection}));
}

TEST_F(ResponderRefusalTest, AReceiveWithTooManySgesEndsBothSides) {
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
  void (*spoil)(Request& request, ConnectOptions& connection);
};

class RefusedRequest : public ResponderRefusalTest, public ::testing::WithParamInterface<RefusedCase> {};

TEST_P(RefusedRequest, IsNakedAndRaisesAnEvent) {
  Request asked = request(GetParam().op, kRqPsn, 8);
  ConnectOptions connection;
  GetParam().spoil(asked, connection);
  a.reset(qp);
  a.connect(qp, kPeer, connection);
  a.receive(qp, receive_of(1, 0, 64));
  asked.is_read_or_atomic() ? ask(asked) : ask_filled(asked);
  expect_failed(GetParam().syndrome, {event(GetParam().event)});
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kFlushed}));
  EXPECT_EQ(a.bytes(mr, 0, 16), std::vector<std::byte>(16));
}

constexpr auto kWrongKey = [](Request& r, ConnectOptions&) { r.rkey += 256; };
constexpr auto kTooLong = [](Request& r, ConnectOptions&) { r.remote_addr += kMrBytes - 4; };
constexpr auto kWraps = [](Request& r, ConnectOptions&) { r.remote_addr = UINT64_MAX - 3; };
constexpr auto kNotByQp = [](Request&, ConnectOptions& c) { c.access = abi::kAccessLocalWrite; };
constexpr auto kNoReads = [](Request&, ConnectOptions& c) { c.max_dest_rd_atomic = 0; };
constexpr auto kMisaligned = [](Request& r, ConnectOptions&) { r.remote_addr += 4; };
constexpr auto kBadSize = [](Request& r, ConnectOptions&) { r.bytes = r.message_bytes = 4; };

INSTANTIATE_TEST_SUITE_P(
    Responder, RefusedRequest,
    ::testing::Values(RefusedCase{"WriteKey", RequestOp::kWrite, Syndrome::kNakRemoteAccess,
                                  EventType::kQpAccessErr, kWrongKey},
                      RefusedCase{"WriteBounds", RequestOp::kWrite, Syndrome::kNakRemoteAccess,
                                  EventType::kQpAccessErr, kTooLong},
                      RefusedCase{"WriteWrap", RequestOp::kWrite, Syndrome::kNakRemoteAccess,
                                  EventType::kQpAccessErr, kWraps},
                      RefusedCase{"WriteQpFlags", RequestOp::kWrite, Syndrome::kNakRemoteAccess,
                                  EventType::kQpAccessErr, kNotByQp},
                      RefusedCase{"ReadKey", RequestOp::kRead, Syndrome::kNakRemoteAccess,
                                  EventType::kQpAccessErr, kWrongKey},
                      RefusedCase{"ReadBounds", RequestOp::kRead, Syndrome::kNakRemoteAccess,
                                  EventType::kQpAccessErr, kTooLong},
                      RefusedCase{"ReadQpFlags", RequestOp::kRead, Syndrome::kNakRemoteAccess,
                                  EventType::kQpAccessErr, kNotByQp},
                      RefusedCase{"ReadLimit", RequestOp::kRead, Syndrome::kNakInvalidRequest,
                                  EventType::kQpReqErr, kNoReads},
                      RefusedCase{"AtomicKey", RequestOp::kFetchAdd, Syndrome::kNakRemoteAccess,
                                  EventType::kQpAccessErr, kWrongKey},
                      RefusedCase{"AtomicQpFlags", RequestOp::kCompareSwap, Syndrome::kNakRemoteAccess,
                                  EventType::kQpAccessErr, kNotByQp},
                      RefusedCase{"AtomicLimit", RequestOp::kFetchAdd, Syndrome::kNakInvalidRequest,
                                  EventType::kQpReqErr, kNoReads},
                      RefusedCase{"AtomicAlignment", RequestOp::kFetchAdd, Syndrome::kNakInvalidRequest,
                                  EventType::kQpReqErr, kMisaligned},
                      RefusedCase{"AtomicSize", RequestOp::kCompareSwap, Syndrome::kNakInvalidRequest,
                                  EventType::kQpReqErr, kBadSize}),
    [](const auto& one) { return one.param.name; });

TEST_F(ResponderRefusalTest, AccessFollowsTheRegionsRights) {
  const TestMr local = a.make_mr(4096, abi::kAccessLocalWrite);
  Request write = request(RequestOp::kWrite, kRqPsn, 8);
  write.rkey = local.key;
  ask_filled(write);
  expect_failed(Syndrome::kNakRemoteAccess, {event(EventType::kQpAccessErr)});
}

// The path may have delivered a copy late, or the requester may have repeated the read before the answer
// arrived. The guest has done nothing wrong.
TEST_F(ResponderRefusalTest, ALateCopyOfAReadWhoseMemoryIsGoneEndsNothing) {
  const Request read = request(RequestOp::kRead, kRqPsn, 8);
  ask(read);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  ASSERT_TRUE(a.engine.destroy_mr(mr.handle));
  ask(read);
  const Response response = answered();
  EXPECT_EQ(response.syndrome, Syndrome::kNakRemoteAccess);
  EXPECT_EQ(response.number, MessageNumber(kRqPsn));
  EXPECT_EQ(a.state(qp), abi::QpState::kRts);
  EXPECT_THAT(a.events.async, IsEmpty());
}

TEST_F(ResponderRefusalTest, AnEmptyWriteNeedsNoKey) {
  Request write = request(RequestOp::kWrite, kRqPsn);
  write.rkey = 0;
  write.remote_addr = 1;
  ask(write);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
}

TEST_F(ResponderRefusalTest, MalformedSegmentsAndStrangersAreDropped) {
  Request bad = request(RequestOp::kWrite, kRqPsn, 8);
  ask(bad);  // without its payload
  bad.message_bytes = 4;
  ask_filled(bad);
  bad = request(RequestOp::kWrite, kRqPsn, 8);
  bad.offset = 9;
  ask_filled(bad);
  bad = request(RequestOp::kRead, kRqPsn, kPieceBytesMax + 1);
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

TEST_F(ResponderRefusalTest, AMessageMayNotChangeItsKind) {
  a.receive(qp, receive_of(1, 0, 64));
  Request piece = request(RequestOp::kWrite, kRqPsn, 64);
  piece.bytes = 32;
  ask_filled(piece);
  piece.op = RequestOp::kSend;
  piece.offset = 32;
  ask_filled(piece);
  expect_failed(Syndrome::kNakInvalidRequest, {event(EventType::kQpReqErr)});
}

// The two pieces of a send must agree about its length. Otherwise bytes could be written outside the receive.
TEST_F(ResponderRefusalTest, AMessageMayNotGrow) {
  a.receive(qp, receive_of(1, 0, 64));
  Request piece = request(RequestOp::kSend, kRqPsn, 64);
  piece.bytes = 32;
  ask_filled(piece);
  piece.offset = 32;
  piece.message_bytes = 128;
  piece.bytes = 96;
  ask_filled(piece);
  expect_failed(Syndrome::kNakInvalidRequest, {});
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kLocalLength}));
}

// The first piece of a message fixes the fields that all its pieces share.
TEST_F(ResponderRefusalTest, AMessageMayNotGoElsewhereHalfWay) {
  Request piece = request(RequestOp::kWrite, kRqPsn, 64);
  piece.bytes = 32;
  ask_filled(piece);
  piece.offset = 32;
  piece.remote_addr += 64;
  ask_filled(piece);
  expect_failed(Syndrome::kNakInvalidRequest, {event(EventType::kQpReqErr)});
}

class KernelRefusalTest : public ResponderRefusalTest {
 protected:
  KernelRefusalTest() : ResponderRefusalTest(0) {}
};

TEST_F(KernelRefusalTest, SendWithInvalidateEndsAKeyBeforeItsCompletion) {
  const auto region = a.engine.create_mr({.kind = MrKind::kFastRegister, .pd = a.pd, .page_count = 1});
  ASSERT_TRUE(region);
  const auto pages = a.memory.object(1);
  SendWr reg{.wr_id = 1, .opcode = abi::Opcode::kFastRegMr};
  reg.fast_register = abi::FastRegFields{
      0x4000, pages.directory, 12, 1, 4096, abi::kAccessLocalWrite | abi::kAccessRemoteWrite, region->key, 0};
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

  write.number = MessageNumber(kRqPsn + 2);
  ask_filled(write);
  EXPECT_EQ(answered().syndrome, Syndrome::kNakRemoteAccess);
}

TEST_F(ResponderRefusalTest, InvalidatingAnOrdinaryKeyIsRefused) {
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
