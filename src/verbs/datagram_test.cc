// UD and GSI QPs: what they send, what they drop, and what the receiver sees.
#include <tuple>

#include "verbs/engine_fixture.h"
#include "verbs/grh.h"

namespace pvrdma::verbs {
namespace {

using abi::CompletionStatus;
using abi::QpState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Event = RecordingEvents::Event;

constexpr std::uint32_t kQkey = 0x1111'1111;

class DatagramTest : public ::testing::Test {
 protected:
  explicit DatagramTest(UarIndex uar = 1, abi::QpType type = abi::QpType::kUd, const Rules& rules = {})
      : a(51, uar, rules), qp(a.make_qp(cq, cq, {.type = type})) {
    abi::QpAttr attr{};
    attr.port_num = 1;
    attr.qkey = kQkey;
    const std::uint32_t port = type == abi::QpType::kUd ? abi::kQpAttrPort : 0u;
    EXPECT_TRUE(a.to_state(qp, QpState::kInit, abi::kQpAttrPkeyIndex | port | abi::kQpAttrQkey, attr));
    EXPECT_TRUE(a.to_state(qp, QpState::kRtr));
    EXPECT_TRUE(a.to_state(qp, QpState::kRts, abi::kQpAttrSqPsn));
  }

  SendWr to(std::uint64_t wr_id, std::uint32_t bytes, std::uint32_t qpn = 99,
            std::uint32_t qkey = kQkey) const {
    SendWr wr{.wr_id = wr_id, .opcode = abi::Opcode::kSend, .sges = {mr.sge(0, bytes)}};
    wr.ud = abi::UdFields{.remote_qpn = qpn, .remote_qkey = qkey, .av = {}};
    wr.ud->av.port_pd = 1u << 24;
    wr.ud->av.dgid.raw = test_gid(52).bytes;
    wr.ud->av.hop_limit = 64;
    wr.ud->av.sl_tclass_flowlabel = 0x20u << 20 | 0x77;
    return wr;
  }
  std::vector<SentMessage<Datagram>> sent() { return std::exchange(a.wire.datagrams, {}); }

  Datagram incoming(std::uint32_t bytes) const {
    Datagram out;
    out.from = {test_gid(52), Qpn(33)};
    out.to = a.endpoint(qp);
    out.qkey = kQkey;
    out.bytes = bytes;
    out.roce = RoceVersion::kV2;
    return out;
  }
  void arrive(const Datagram& datagram, std::uint8_t seed = 1) {
    auto payload = TestAdapter::pattern_bytes(datagram.bytes, seed);
    a.engine.on_datagram(datagram, spans(payload), a.now);
    a.settle();
  }
  void receive(std::uint64_t wr_id, std::uint32_t bytes) {
    a.receive(qp, {.wr_id = wr_id, .sges = {mr.sge(4096, 40), mr.sge(0, bytes)}});
  }

  TestAdapter a;
  TestCq cq = a.make_cq();
  TestMr mr = a.make_mr(1u << 16);
  TestQp qp;
};

class DatagramObserver final : public MessageObserver {
 public:
  void on_request(Direction, const Request&, const guestmem::SpanList*, abi::Mtu, Instant) override {}
  void on_response(Direction, const Response&, const Answered&, const guestmem::SpanList*, abi::Mtu,
                   Instant) override {}
  void on_datagram(Direction direction, const Datagram& datagram, const guestmem::SpanList& payload,
                   Instant) override {
    seen.emplace_back(direction, datagram.qkey, payload.bytes());
  }
  std::vector<std::tuple<Direction, std::uint32_t, std::uint64_t>> seen;
};

TEST_F(DatagramTest, AnObserverSeesWhatLeavesAndWhatArrives) {
  DatagramObserver observer;
  a.wire.observe(&observer);
  a.send(qp, to(1, 100));
  receive(2, 200);
  arrive(incoming(200));
  arrive(incoming(300));  // no receive is posted for it: the observer sees it nevertheless
  EXPECT_THAT(observer.seen, ElementsAre(std::tuple(Direction::kOutbound, kQkey, 100u),
                                         std::tuple(Direction::kInbound, kQkey, 200u),
                                         std::tuple(Direction::kInbound, kQkey, 300u)));
}

TEST_F(DatagramTest, ASendIsOneDatagramAndCompletesAtOnce) {
  a.fill(mr, 0, 100, 4);
  SendWr wr = to(1, 100);
  wr.flags |= abi::kSendSolicited;
  a.send(qp, wr);
  const auto messages = sent();
  ASSERT_THAT(messages, SizeIs(1));
  const Datagram& d = messages[0].message;
  EXPECT_EQ(d.from, a.endpoint(qp));
  EXPECT_EQ(d.to, (Endpoint{test_gid(52), Qpn(99)}));
  EXPECT_EQ(d.qkey, kQkey);
  EXPECT_EQ(d.flow_label, 0x77u);
  EXPECT_EQ(d.traffic_class, 0x20);
  EXPECT_EQ(d.hop_limit, 64);
  EXPECT_EQ(d.roce, RoceVersion::kV2);
  EXPECT_TRUE(d.solicited);
  EXPECT_EQ(messages[0].payload, TestAdapter::pattern_bytes(100, 4));
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{1}));
  EXPECT_EQ(a.engine.counters().tx_messages, 1u);
}

TEST_F(DatagramTest, AnImpossibleSendIndexEndsTheQpAndNothingIsSent) {
  qp.sends.set_prod_tail(0x7fff'ffff);
  a.ring(qp);
  a.settle();
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(a.state(qp), QpState::kErr);
  EXPECT_THAT(a.events.async, ElementsAre(Event{abi::EventType::kQpFatal, qp.handle.value}));
  EXPECT_EQ(a.engine.counters().invalid_ring_indices, 1u);
}

TEST_F(DatagramTest, WaitsWhileItsWayHasNoRoom) {
  a.wire.room = 2;
  for (std::uint64_t id = 1; id <= 5; ++id) a.send(qp, to(id, 8));
  EXPECT_THAT(sent(), SizeIs(2)) << "each doorbell makes the QP run, but it waits";
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{1}, Completion{2}));
  a.wire.room = 1;
  a.engine.on_path_ready();
  a.settle();
  EXPECT_THAT(sent(), SizeIs(1)) << "the way is full again";
  a.wire.room = -1;
  a.engine.on_path_ready();
  a.settle();
  EXPECT_THAT(sent(), SizeIs(2));
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{3}, Completion{4}, Completion{5}));
}

TEST_F(DatagramTest, DoesNotWaitForLong) {
  a.wire.room = 0;
  for (std::uint64_t id = 1; id <= 3; ++id) a.send(qp, to(id, 8));
  EXPECT_THAT(sent(), SizeIs(1));
  a.advance(std::chrono::milliseconds(99));
  EXPECT_THAT(sent(), IsEmpty());
  a.advance(std::chrono::milliseconds(1));
  EXPECT_THAT(sent(), SizeIs(1)) << "perhaps it has another way than the one before";
  EXPECT_EQ(a.engine.next_deadline(), a.now + std::chrono::milliseconds(100));
}

TEST_F(DatagramTest, IsDestroyedWhileItWaits) {
  a.wire.room = 0;
  for (std::uint64_t id = 1; id <= 3; ++id) a.send(qp, to(id, 8));
  EXPECT_TRUE(a.to_state(qp, QpState::kErr));
  a.settle();
  EXPECT_THAT(a.poll(cq), SizeIs(3)) << "one was sent, and two are flushed";
  EXPECT_TRUE(a.engine.destroy_qp(qp.handle, a.now));
  a.advance(std::chrono::milliseconds(100));
  EXPECT_THAT(sent(), SizeIs(1));
}

TEST_F(DatagramTest, ImmediateDataTravels) {
  SendWr wr = to(1, 8);
  wr.opcode = abi::Opcode::kSendWithImm;
  wr.extra = 0xcafe;
  a.send(qp, wr);
  EXPECT_EQ(sent().at(0).message.extra_value, 0xcafeu);
}

TEST_F(DatagramTest, APrivilegedQkeyInAWqeMeansTheQpsOwn) {
  a.send(qp, to(1, 8, 99, 0x8001'0000));
  EXPECT_EQ(sent().at(0).message.qkey, kQkey);
}

TEST_F(DatagramTest, AUserProcessDoesNotReachManagementQps) {
  a.send(qp, to(1, 8, 1));
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{1}));
}

struct SendFault {
  const char* name;
  CompletionStatus status;
  void (*spoil)(SendWr& wr);
};
class BadDatagram : public DatagramTest, public ::testing::WithParamInterface<SendFault> {};

TEST_P(BadDatagram, StopsTheSendQueueOnly) {
  SendWr bad = to(1, 8);
  GetParam().spoil(bad);
  a.post(qp, bad);
  a.post(qp, to(2, 8));
  a.ring(qp);
  a.settle();
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_THAT(a.poll(cq),
              ElementsAre(Completion{1, GetParam().status}, Completion{2, CompletionStatus::kFlushed}));
  EXPECT_EQ(a.state(qp), QpState::kSqe);
  a.send(qp, to(3, 8));
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{3, CompletionStatus::kFlushed}));
  receive(4, 64);
  arrive(incoming(8));
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{4})) << "it goes on receiving";
  ASSERT_TRUE(a.to_state(qp, QpState::kRts));
  a.send(qp, to(5, 8));
  EXPECT_THAT(sent(), SizeIs(1));
}

INSTANTIATE_TEST_SUITE_P(Datagram, BadDatagram,
                         ::testing::Values(SendFault{"TooLong", CompletionStatus::kLocalLength,
                                                     [](SendWr& wr) { wr.sges[0].length = 1025; }},
                                           SendFault{"BadKey", CompletionStatus::kLocalProtection,
                                                     [](SendWr& wr) { wr.sges[0].lkey += 256; }},
                                           SendFault{"GidBeyondTheTable", CompletionStatus::kLocalQpOperation,
                                                     [](SendWr& wr) { wr.ud->av.gid_index = 255; }},
                                           SendFault{"OtherPort", CompletionStatus::kLocalQpOperation,
                                                     [](SendWr& wr) { wr.ud->av.port_pd = 2u << 24; }},
                                           SendFault{"Write", CompletionStatus::kLocalQpOperation,
                                                     [](SendWr& wr) { wr.opcode = abi::Opcode::kRdmaWrite; }},
                                           SendFault{"Read", CompletionStatus::kLocalQpOperation,
                                                     [](SendWr& wr) { wr.opcode = abi::Opcode::kRdmaRead; }},
                                           SendFault{
                                               "SendInv", CompletionStatus::kLocalQpOperation,
                                               [](SendWr& wr) { wr.opcode = abi::Opcode::kSendWithInv; }}),
                         [](const auto& one) { return one.param.name; });

// A guest's kernel unbinds a GID when its address is removed, and address handles outlive that.
TEST_F(DatagramTest, ASendByAGidThatIsGoneIsLostAndTheQpGoesOn) {
  SendWr by_gone = to(1, 8);
  by_gone.ud->av.gid_index = 1;
  a.send(qp, by_gone);
  a.send(qp, to(2, 8));
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{1}, Completion{2}));
  EXPECT_EQ(a.state(qp), QpState::kRts);
  const auto all = sent();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].message.from.gid, Gid{}) << "which no port holds";
  EXPECT_EQ(all[1].message.from.gid, a.gid);
}

TEST_F(DatagramTest, AReceiveStartsWithTheGrh) {
  receive(7, 200);
  Datagram d = incoming(150);
  d.extra = Extra::kImmediate;
  d.extra_value = 0x55;
  arrive(d, 9);
  const Grh grh = make_grh(d);
  EXPECT_EQ(a.bytes(mr, 4096, 40), std::vector(grh.begin(), grh.end()));
  EXPECT_EQ(a.bytes(mr, 0, 150), TestAdapter::pattern_bytes(150, 9));
  const auto cqes = a.poll_cqes(cq);
  ASSERT_THAT(cqes, SizeIs(1));
  EXPECT_EQ(cqes[0].wr_id, 7u);
  EXPECT_EQ(cqes[0].opcode, 0x80u);
  EXPECT_EQ(cqes[0].byte_len, 190u);
  EXPECT_EQ(cqes[0].src_qp, 33u);
  EXPECT_EQ(cqes[0].wc_flags, std::uint32_t{abi::kWcGrh} | abi::kWcWithImm) << "no kernel-only bits";
  EXPECT_EQ(cqes[0].imm_data.raw, 0x55u);
  EXPECT_EQ(cqes[0].sl, packet_type(d));
}

TEST_F(DatagramTest, AnotherQkeyIsDropped) {
  receive(1, 64);
  Datagram d = incoming(8);
  d.qkey ^= 1;
  arrive(d);
  EXPECT_THAT(a.poll(cq), IsEmpty());
  EXPECT_EQ(a.engine.counters().ud_dropped_qkey, 1u);
}

TEST_F(DatagramTest, WithoutAReceiveItIsDropped) {
  arrive(incoming(8));
  EXPECT_EQ(a.engine.counters().ud_dropped_no_receive, 1u);
  receive(1, 64);
  EXPECT_THAT(a.poll(cq), IsEmpty());
}

TEST_F(DatagramTest, WhatDoesNotFitIsDroppedAndTheReceiveStays) {
  receive(1, 64);
  arrive(incoming(65));
  EXPECT_EQ(a.engine.counters().ud_dropped_length, 1u);
  EXPECT_THAT(a.poll(cq), IsEmpty());
  arrive(incoming(64));
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{1}));
}

TEST_F(DatagramTest, ATooLongOrMisstatedDatagramIsDropped) {
  receive(1, 4000);
  arrive(incoming(1025));
  Datagram d = incoming(8);
  a.engine.on_datagram(d, {}, a.now);
  d.to.qpn = Qpn(0xabcdef);
  arrive(d);
  EXPECT_EQ(a.engine.counters().dropped_unknown_qp, 3u);
  EXPECT_THAT(a.poll(cq), IsEmpty());
}

TEST_F(DatagramTest, AReceiveWithABadKeyEndsTheQp) {
  a.receive(qp, {.wr_id = 1, .sges = {{mr.start, 64, mr.key + 256}}});
  receive(2, 64);
  arrive(incoming(8));
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{1, CompletionStatus::kLocalProtection},
                                      Completion{2, CompletionStatus::kFlushed}));
  EXPECT_EQ(a.state(qp), QpState::kErr);
}

TEST_F(DatagramTest, ABadRingIndexEndsTheQp) {
  qp.receives.set_prod_tail(0x1000);
  arrive(incoming(8));
  EXPECT_EQ(a.state(qp), QpState::kErr);
  EXPECT_THAT(a.events.async, ElementsAre(Event{abi::EventType::kQpFatal, qp.handle.value}));
}

TEST_F(DatagramTest, InErrItIsFlushedAndDeaf) {
  a.post(qp, to(1, 8));
  receive(2, 64);
  ASSERT_TRUE(a.to_state(qp, QpState::kErr));
  a.settle();
  arrive(incoming(8));
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{1, CompletionStatus::kFlushed},
                                      Completion{2, CompletionStatus::kFlushed}));
}

TEST_F(DatagramTest, SqdIsDrainedAtOnce) {
  abi::QpAttr attr{};
  attr.en_sqd_async_notify = 1;
  ASSERT_TRUE(a.to_state(qp, QpState::kSqd, abi::kQpAttrEnSqdAsyncNotify, attr));
  EXPECT_THAT(a.events.async, ElementsAre(Event{abi::EventType::kSqDrained, qp.handle.value}));
  a.send(qp, to(1, 8));
  EXPECT_THAT(sent(), IsEmpty());
  ASSERT_TRUE(a.to_state(qp, QpState::kRts));
  EXPECT_THAT(sent(), SizeIs(1));
}

TEST_F(DatagramTest, RcMessagesDoNotReachIt) {
  Request request;
  request.to = a.endpoint(qp);
  SpanPayload nothing;
  a.engine.on_request(request, nothing, a.now);
  a.engine.on_response({.to = a.endpoint(qp)}, nothing, a.now);
  EXPECT_EQ(a.engine.counters().dropped_unknown_qp, 2u);
}

TEST_F(DatagramTest, ItMaySendToItself) {
  a.wire.peer = &a.engine;
  receive(2, 64);
  SendWr wr = to(1, 64, qp.qpn.value);
  wr.ud->av.dgid.raw = a.gid.bytes;
  a.fill(mr, 8192, 64, 5);
  wr.sges = {mr.sge(8192, 64)};
  a.send(qp, wr);
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{2}, Completion{1}));
  EXPECT_EQ(a.bytes(mr, 0, 64), TestAdapter::pattern_bytes(64, 5));
}

TEST_F(DatagramTest, ASharedReceiveQueueFeedsIt) {
  TestSrq srq = a.make_srq(4);
  TestQp shared = a.make_qp(cq, cq, {.type = abi::QpType::kUd, .srq = &srq});
  abi::QpAttr attr{};
  attr.port_num = 1;
  attr.qkey = kQkey;
  ASSERT_TRUE(
      a.to_state(shared, QpState::kInit, abi::kQpAttrPkeyIndex | abi::kQpAttrPort | abi::kQpAttrQkey, attr));
  ASSERT_TRUE(a.to_state(shared, QpState::kRtr));
  TestAdapter::post_receive(srq.ring, {.wr_id = 3, .sges = {mr.sge(0, 200)}});
  Datagram d = incoming(8);
  d.to.qpn = shared.qpn;
  arrive(d);
  EXPECT_THAT(a.poll(cq), ElementsAre(Completion{3}));
}

// --- GSI ---

class GsiTest : public DatagramTest {
 protected:
  GsiTest() : DatagramTest(0, abi::QpType::kGsi) {}
};

TEST_F(GsiTest, DoesNotWaitForRoom) {
  a.wire.room = 0;
  for (std::uint64_t id = 1; id <= 3; ++id) a.send(qp, to(id, 8, 1));
  EXPECT_THAT(sent(), SizeIs(3)) << "one busy host would hold up the connections to all others";
}

TEST_F(GsiTest, ItIsQpOneAndSpeaksToItsLike) {
  EXPECT_EQ(qp.qpn, kGsiQpn);
  a.send(qp, to(1, 256, 1));
  const auto messages = sent();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].message.from.qpn, kGsiQpn);
  receive(2, 256);
  arrive(incoming(256));
  const auto cqes = a.poll_cqes(cq);
  ASSERT_THAT(cqes, SizeIs(2));
  EXPECT_EQ(cqes[1].wc_flags, std::uint32_t{abi::kWcGrh} | abi::kWcWithNetworkHdrType);
  EXPECT_EQ(cqes[1].network_hdr_type, static_cast<std::uint8_t>(abi::NetworkHdrType::kIpv4));
}

class V1Test : public DatagramTest {
 protected:
  V1Test() : DatagramTest(0, abi::QpType::kGsi, Rules{.roce = RoceVersion::kV1}) {}
};

TEST_F(V1Test, TheGidsTypeIsTheDatagrams) {
  a.send(qp, to(1, 8, 1));
  EXPECT_EQ(sent().at(0).message.roce, RoceVersion::kV1);
}

}  // namespace
}  // namespace pvrdma::verbs
