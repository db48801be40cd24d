#include "fabric/fabric.h"

#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "fabric/fabric_fixture.h"
#include "fabric/port.h"
#include "support/manual_clock.h"
#include "verbs/engine_fixture.h"

namespace pvrdma::fabric {
namespace {

using transport::HostId;
using transport::SegmentId;

constexpr SegmentId kBlue{1, 0};
constexpr SegmentId kGreen{1, 20};
constexpr HostId kEsx2{2};
constexpr HostId kEsx3{3};

class RecordingObserver final : public FabricObserver {
 public:
  void on_gid_bound(SegmentId segment, const verbs::Gid& gid, const std::string& port) override {
    held.emplace(segment, gid, port);
  }
  void on_gid_unbound(SegmentId segment, const verbs::Gid& gid) override {
    std::erase_if(held, [&](const auto& e) { return std::get<0>(e) == segment && std::get<1>(e) == gid; });
  }
  void on_gid_moved(SegmentId /*segment*/, const verbs::Gid& /*gid*/) noexcept override {
    ADD_FAILURE() << "there is one shard";
  }
  void on_host_up(HostId host, bool up) override { hosts_up[host] = up; }
  std::set<std::tuple<SegmentId, verbs::Gid, std::string>> held;
  std::map<HostId, bool> hosts_up;
};

class FabricTest : public testing::Test {
 protected:
  FabricTest() {
    hosts_.up = {kEsx2, kEsx3};
    fabric_.use(local_);
    fabric_.use(hosts_);
  }

  static View view_of(std::vector<RemoteGid> gids) {
    return View{{{kEsx2, "esx-02", PathKind::kTcp, "host esx-02 has no active HCA"},
                 {kEsx3, "esx-03", PathKind::kNone, "ruleset pvrdma is disabled on host esx-03"}},
                std::move(gids)};
  }
  bool send_request(Port& port, std::uint8_t from, std::uint8_t to) {
    return end_.send_request(port, gid(from), gid(to));
  }
  transport::Delivery receive(HostId host, SegmentId segment, std::uint8_t from, std::uint8_t to) {
    verbs::Request request;
    request.from.gid = gid(from);
    request.to.gid = gid(to);
    verbs::SpanPayload payload;
    return fabric_.on_request(host, PathKind::kTcp, segment, request, payload, now_);
  }
  // The number of requests that have reached the engine. It has no QP and therefore counts each as dropped.
  static std::uint64_t arrived(const Node& node) { return node.engine.counters().dropped_unknown_qp; }

  const Instant now_{std::chrono::seconds(100)};
  guestmem::SpanList payload_;
  test::ManualClock clock_;
  RecordingTransport local_{PathKind::kLocal};
  RecordingTransport hosts_{PathKind::kTcp};
  RecordingObserver observer_;
  Fabric fabric_{clock_, &observer_};
  End end_;
};

TEST_F(FabricTest, TellsWhichHostsItReaches) {
  hosts_.up.insert(kEsx2);
  fabric_.on_up_changed(kEsx2, now_);
  EXPECT_EQ(observer_.hosts_up, (std::map<HostId, bool>{{kEsx2, true}}));
  hosts_.up.erase(kEsx2);
  fabric_.on_up_changed(kEsx2, now_);
  EXPECT_EQ(observer_.hosts_up, (std::map<HostId, bool>{{kEsx2, false}}));
}

TEST_F(FabricTest, ReachesGidsOfOtherHosts) {
  Node a("VM-01", fabric_.segment(kBlue));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}, {kBlue, gid(4), kEsx2}, {kGreen, gid(5), kEsx2}}));
  EXPECT_TRUE(send_request(a.port, 1, 2));
  End other;
  other.path(a.port, gid(1), gid(4)).send_response({}, payload_, now_);
  verbs::Datagram datagram;
  datagram.from.gid = gid(1);
  datagram.to.gid = gid(2);
  EXPECT_TRUE(a.port.send_datagram(datagram, payload_, now_));
  EXPECT_EQ(hosts_.deliveries,
            (std::vector<Delivery>{
                {nullptr, 'q', kEsx2, kBlue}, {nullptr, 'r', kEsx2, kBlue}, {nullptr, 'd', kEsx2, kBlue}}));
  EXPECT_EQ(a.port.counters().sent_by(PathKind::kTcp).messages, 3U);
  EXPECT_EQ(a.port.counters().sent_by(PathKind::kLocal).messages, 0U);
  hosts_.busy = true;
  EXPECT_FALSE(a.port.send_datagram(datagram, payload_, now_));

  End foreign;
  foreign.send_request(a.port, gid(1), gid(5));
  EXPECT_EQ(a.port.counters().dropped_for(DropReason::kUnknownGid), 1U) << "another segment's GID";
  datagram.to.gid = gid(5);
  EXPECT_TRUE(a.port.send_datagram(datagram, payload_, now_))
      << "it is dropped: there is nothing to wait for";
  a.port.flush(now_);
  EXPECT_EQ(hosts_.flushes, 1);
}

TEST_F(FabricTest, GoesByTheHcaWhereTheSwitchHasItAndByTcpWhileItIsNotUp) {
  RecordingTransport hca(PathKind::kHca);
  fabric_.use(hca);
  constexpr SegmentId kOther{2, 0};
  Node a("VM-01", fabric_.segment(kBlue));
  Node b("VM-02", fabric_.segment(kOther));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  ASSERT_TRUE(b.port.bind_gid(gid(1)));
  View view = view_of({{kBlue, gid(2), kEsx2}, {kOther, gid(2), kEsx2}});
  view.hosts[0].path = PathKind::kHca;
  view.hosts[0].reason = "vmrdma0 and vmrdma0";
  view.hosts[0].hca_switches = {kBlue.dvs};
  fabric_.set_view(view);
  const auto kind = [&] { return fabric_.segment(kBlue).path_to(gid(2)); };

  EXPECT_EQ(kind().kind, PathKind::kTcp);
  EXPECT_TRUE(hca.prepared.empty()) << "looking at a path needs no pipe";
  EXPECT_TRUE(send_request(a.port, 1, 2));
  EXPECT_EQ(hca.prepared, std::vector{kEsx2});
  hca.up = {kEsx2};
  EXPECT_TRUE(send_request(a.port, 1, 2));
  EXPECT_EQ(hca.deliveries.size(), 0U) << "the path there is stays until the fabric is told";
  fabric_.on_up_changed(kEsx2, now_);
  EXPECT_TRUE(send_request(a.port, 1, 2));
  EXPECT_EQ(hca.deliveries.size(), 1U);
  EXPECT_EQ(kind().kind, PathKind::kHca);
  EXPECT_EQ(kind().reason, "vmrdma0 and vmrdma0");
  hca.up = {};
  fabric_.on_up_changed(kEsx2, now_);
  EXPECT_TRUE(send_request(a.port, 1, 2));
  EXPECT_EQ(hosts_.deliveries.size(), 3U);
  EXPECT_TRUE(observer_.hosts_up.at(kEsx2)) << "by tcp";

  hca.up = {kEsx2};
  End other;
  EXPECT_TRUE(other.send_request(b.port, gid(1), gid(2)));
  EXPECT_EQ(hosts_.deliveries.size(), 4U) << "its uplink is no HCA";
  EXPECT_EQ(fabric_.segment(kOther).path_to(gid(2)).reason,
            "the switch's uplinks are not paired with the hosts' HCAs");
  fabric_.drop(PathKind::kHca);
}

// The hosts disagree about the working path: the answer takes the path that brought the request.
TEST_F(FabricTest, AnAnswerGoesBackByTheWayOfItsRequest) {
  RecordingTransport hca(PathKind::kHca);
  fabric_.use(hca);
  hca.up = {kEsx2};
  Node a("VM-01", fabric_.segment(kBlue));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  View view = view_of({{kBlue, gid(2), kEsx2}});
  view.hosts[0].path = PathKind::kHca;
  view.hosts[0].hca_switches = {kBlue.dvs};
  fabric_.set_view(view);
  verbs::PathSlot own;
  verbs::Path& usual = a.port.path(own, [] { return verbs::Connection{{gid(1), {}}, {gid(2), {}}}; });
  EXPECT_EQ(&a.port.answer_path(usual), &usual);
  a.port.answer_by(hosts_, {.host = kEsx2, .segment = kBlue}, {{gid(1), {}}, {gid(2), {}}});
  a.port.answer_path(usual).send_response({}, payload_, now_);
  a.port.answer_as_usual();
  EXPECT_EQ(hosts_.deliveries, (std::vector<Delivery>{{nullptr, 'r', kEsx2, kBlue}}));
  a.port.answer_path(usual).send_response({}, payload_, now_);
  EXPECT_EQ(hca.deliveries, (std::vector<Delivery>{{nullptr, 'r', kEsx2, kBlue}}));
  fabric_.drop(PathKind::kHca);
}

TEST_F(FabricTest, NothingIsSentWithoutRoom) {
  Node a("VM-01", fabric_.segment(kBlue));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}}));
  hosts_.busy = true;
  EXPECT_FALSE(send_request(a.port, 1, 2));
  EXPECT_EQ(a.port.counters().sent_by(PathKind::kTcp).messages, 0U);
}

TEST_F(FabricTest, DropsAndCountsWhatHasNoPath) {
  Node a("VM-01", fabric_.segment(kBlue));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  fabric_.set_view(view_of({{kBlue, gid(3), kEsx3}}));
  EXPECT_TRUE(send_request(a.port, 1, 3)) << "into nothing: the sender's time limit tells";
  EXPECT_EQ(a.port.counters().dropped_for(DropReason::kNoPath), 1U);
  EXPECT_TRUE(hosts_.deliveries.empty());
}

TEST_F(FabricTest, TellsThePathThePeersHostAndWhy) {
  Switch& blue = fabric_.segment(kBlue);
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}, {kBlue, gid(3), kEsx3}}));
  PathInfo path = blue.path_to(gid(2));
  EXPECT_EQ(path.kind, PathKind::kTcp);
  EXPECT_EQ(path.peer_host, "esx-02");
  EXPECT_EQ(path.reason, "host esx-02 has no active HCA");
  hosts_.up.clear();
  EXPECT_EQ(blue.path_to(gid(2)).reason, "host esx-02 has no active HCA, not connected now");
  path = blue.path_to(gid(3));
  EXPECT_EQ(path.kind, PathKind::kNone);
  EXPECT_EQ(path.peer_host, "esx-03");
  EXPECT_EQ(path.reason, "ruleset pvrdma is disabled on host esx-03");
  EXPECT_EQ(fabric_.segment(kGreen).path_to(gid(2)).reason, "no port holds the GID");
}

TEST_F(FabricTest, RefusesAGidThatAnotherHostHolds) {
  Node a("VM-01", fabric_.segment(kBlue));
  Node b("VM-02", fabric_.segment(kGreen));
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}}));
  EXPECT_FALSE(a.port.bind_gid(gid(2)));
  EXPECT_EQ(fabric_.duplicates_refused(), 1U);
  EXPECT_TRUE(b.port.bind_gid(gid(2))) << "the same GID in another segment is another one";
  fabric_.set_view(view_of({}));
  EXPECT_TRUE(a.port.bind_gid(gid(2)));
}

TEST_F(FabricTest, TellsWhichGidsThePortsHold) {
  Node a("VM-01", fabric_.segment(kBlue));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  {
    Node b("VM-02", fabric_.segment(kGreen));
    ASSERT_TRUE(b.port.bind_gid(gid(1)));
    ASSERT_TRUE(b.port.bind_gid(gid(6)));
    EXPECT_EQ(observer_.held.size(), 3U);
  }
  EXPECT_EQ(observer_.held, (decltype(observer_.held){{kBlue, gid(1), "VM-01"}}));
  a.port.unbind_gid(gid(1));
  EXPECT_EQ(observer_.held.size(), 1U) << "an engine and its successor had it";
  a.port.unbind_gid(gid(1));
  EXPECT_TRUE(observer_.held.empty());
}

TEST_F(FabricTest, APathStaysUntilItsSegmentChanges) {
  Node a("VM-01", fabric_.segment(kBlue));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}}));
  send_request(a.port, 1, 2);
  EXPECT_EQ(hosts_.opened, 1);
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}}));
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}, {kGreen, gid(3), kEsx2}}));
  View reworded = view_of({{kBlue, gid(2), kEsx2}});
  reworded.hosts[0].reason = "another one";
  fabric_.set_view(reworded);
  send_request(a.port, 1, 2);
  EXPECT_EQ(hosts_.opened, 1);
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}, {kBlue, gid(3), kEsx2}}));
  send_request(a.port, 1, 2);
  EXPECT_EQ(hosts_.opened, 2);
}

TEST_F(FabricTest, PathsGoWithTheirHostAndComeBackWithIt) {
  Node a("VM-01", fabric_.segment(kBlue));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}}));
  send_request(a.port, 1, 2);
  View shut = view_of({{kBlue, gid(2), kEsx2}});
  shut.hosts[0].path = PathKind::kNone;
  fabric_.set_view(shut);
  send_request(a.port, 1, 2);
  EXPECT_EQ(a.port.counters().dropped_for(DropReason::kNoPath), 1U);
  fabric_.set_view(View{});
  send_request(a.port, 1, 2);
  EXPECT_EQ(a.port.counters().dropped_for(DropReason::kUnknownGid), 1U);
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}}));
  send_request(a.port, 1, 2);
  EXPECT_EQ(hosts_.deliveries.size(), 2U);
  fabric_.drop(PathKind::kTcp);
  send_request(a.port, 1, 2);
  EXPECT_EQ(a.port.counters().dropped_for(DropReason::kNoPath), 2U);
}

TEST_F(FabricTest, LetsInWhatTheSendingHostMaySay) {
  Node a("VM-01", fabric_.segment(kBlue));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}, {kBlue, gid(3), kEsx3}, {kGreen, gid(4), kEsx2}}));
  EXPECT_EQ(receive(kEsx2, kBlue, 2, 1), transport::Delivery::kDelivered);
  EXPECT_EQ(arrived(a), 1U);
  EXPECT_EQ(receive(kEsx3, kBlue, 2, 1), transport::Delivery::kForeignSource) << "that is esx-02's GID";
  EXPECT_EQ(receive(kEsx2, kBlue, 9, 1), transport::Delivery::kForeignSource) << "nobody holds it";
  EXPECT_EQ(receive(kEsx2, kBlue, 4, 1), transport::Delivery::kForeignSource) << "held in another segment";
  EXPECT_EQ(receive(kEsx2, kBlue, 1, 1), transport::Delivery::kForeignSource) << "a port of this host";
  EXPECT_EQ(receive(kEsx2, kBlue, 2, 7), transport::Delivery::kUnknownGid);
  EXPECT_EQ(receive(kEsx2, kGreen, 4, 1), transport::Delivery::kUnknownGid);
  EXPECT_EQ(receive(kEsx2, SegmentId{99, 0}, 2, 1), transport::Delivery::kUnknownGid);
  EXPECT_EQ(arrived(a), 1U);
}

TEST_F(FabricTest, LetsNobodyIntoTheDaemonsOwnSegment) {
  Node a("VM-01", fabric_.segment(SegmentId{}));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  fabric_.set_view(view_of({{SegmentId{}, gid(2), kEsx2}}));
  EXPECT_EQ(receive(kEsx2, SegmentId{}, 2, 1), transport::Delivery::kUnknownGid);
  EXPECT_EQ(arrived(a), 0U);
}

TEST_F(FabricTest, APortWithoutLinkOrAdapterDropsAndCounts) {
  Node a("VM-01", fabric_.segment(kBlue));
  ASSERT_TRUE(a.port.bind_gid(gid(1)));
  fabric_.set_view(view_of({{kBlue, gid(2), kEsx2}}));
  a.port.set_link(false);
  EXPECT_EQ(receive(kEsx2, kBlue, 2, 1), transport::Delivery::kDelivered);
  a.port.set_link(true);
  a.port.detach();
  EXPECT_EQ(receive(kEsx2, kBlue, 2, 1), transport::Delivery::kDelivered);
  EXPECT_EQ(arrived(a), 0U);
  EXPECT_EQ(a.port.counters().dropped_for(DropReason::kLinkDown), 1U);
  EXPECT_EQ(a.port.counters().dropped_for(DropReason::kPortDetached), 1U);
}

// One RC connection to a GID of esx-02, with its guest. The test records what its engine sends.
class FabricConnection : public FabricTest {
 protected:
  void SetUp() override {
    guest_.connect(qp_, {kPeer, verbs::Qpn(77)});
    port_.attach(guest_.engine);
    fabric_.set_view(view_of({{kBlue, kPeer, kEsx2}}));
  }
  void TearDown() override { port_.detach(); }

  void post(std::uint64_t wr_id) { guest_.send(qp_, {.wr_id = wr_id, .sges = {mr_.sge(0, 64)}}); }
  // The number of requests that the engine has sent since the last call.
  std::size_t sent() {
    guest_.settle();
    return std::exchange(guest_.wire.requests, {}).size();
  }
  // The peer's first request, arriving from that host.
  transport::Delivery ask_as(HostId host, verbs::RequestOp op = verbs::RequestOp::kWrite) {
    const verbs::Request request{.from = {kPeer, verbs::Qpn(77)},
                                 .to = guest_.endpoint(qp_),
                                 .number = verbs::MessageNumber(verbs::ConnectOptions{}.rq_psn),
                                 .op = op};
    verbs::SpanPayload payload;
    return fabric_.on_request(host, PathKind::kTcp, kBlue, request, payload, now_);
  }
  auto answers() { return std::exchange(guest_.wire.responses, {}); }

  static inline const verbs::Gid kPeer = verbs::test_gid(52);
  verbs::TestAdapter guest_{51};
  verbs::TestCq cq_ = guest_.make_cq();
  verbs::TestMr mr_ = guest_.make_mr(4096);
  verbs::TestQp qp_ = guest_.make_qp(cq_, cq_);
  Port port_{"VM-01", {}, fabric_.segment(kBlue)};
};

TEST_F(FabricConnection, GoesOnWhenTheWayTakesRequestsAgain) {
  guest_.wire.room = 0;
  post(1);
  EXPECT_EQ(sent(), 0U);
  guest_.wire.room = -1;
  EXPECT_EQ(sent(), 0U) << "it waits until it is told";
  fabric_.on_ready(kEsx2, now_);
  EXPECT_EQ(sent(), 1U);
}

TEST_F(FabricConnection, SendsAgainWhatWasLostWithAConnectionToItsPeersHost) {
  post(1);
  EXPECT_EQ(sent(), 1U);
  fabric_.on_restored(kEsx3, now_);
  EXPECT_EQ(sent(), 0U) << "another host's connection";
  fabric_.on_restored(kEsx2, now_);
  EXPECT_EQ(sent(), 1U);
}

TEST_F(FabricConnection, SendsAgainWhatAStoppedPeerHereHasNotSeen) {
  fabric_.set_view(view_of({}));
  Node peer("VM-02", fabric_.segment(kBlue));
  ASSERT_TRUE(peer.port.bind_gid(kPeer));
  post(1);
  EXPECT_EQ(sent(), 1U);
  EXPECT_EQ(peer.port.set_stopped(true), 0U);
  EXPECT_EQ(sent(), 0U);
  EXPECT_EQ(peer.port.set_stopped(false), 1U) << "QPs were looked through";
  EXPECT_EQ(sent(), 1U);
}

TEST_F(FabricConnection, GoesOnWhenItsPeerMovesOrItsPathComesBack) {
  post(1);
  EXPECT_EQ(sent(), 1U);
  View view = view_of({{kBlue, kPeer, kEsx2}, {kBlue, gid(8), kEsx2}});
  fabric_.set_view(view);
  EXPECT_EQ(sent(), 0U) << "that concerned another GID";
  view.hosts[0].path = PathKind::kNone;
  fabric_.set_view(view);
  EXPECT_EQ(sent(), 0U);
  view.hosts[0].path = PathKind::kTcp;
  fabric_.set_view(view);
  EXPECT_EQ(sent(), 1U);
  view.hosts[1].path = PathKind::kTcp;
  view.gids[0].host = kEsx3;
  fabric_.set_view(view);
  EXPECT_EQ(sent(), 1U);
}

// The peer's host learned of this guest before this host learned of the peer.
TEST_F(FabricConnection, AsksForWhatCameBeforeItsSenderWasKnown) {
  ASSERT_TRUE(port_.bind_gid(verbs::test_gid(51)));
  EXPECT_EQ(ask_as(kEsx3), transport::Delivery::kForeignSource);
  fabric_.set_view(View{});
  fabric_.set_view(view_of({{kBlue, kPeer, kEsx2}}));
  EXPECT_EQ(answers().size(), 0U) << "a lie: another host held it";

  fabric_.set_view(View{});
  EXPECT_EQ(ask_as(kEsx2), transport::Delivery::kForeignSource);
  fabric_.set_view(view_of({{kBlue, gid(8), kEsx2}}));
  EXPECT_EQ(answers().size(), 0U);
  fabric_.set_view(view_of({{kBlue, kPeer, kEsx2}}));
  const auto asked = answers();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].message.syndrome, verbs::Syndrome::kNakSequence);
  EXPECT_EQ(asked[0].message.number, verbs::MessageNumber(verbs::ConnectOptions{}.rq_psn));
  EXPECT_EQ(ask_as(kEsx2), transport::Delivery::kDelivered);
  fabric_.set_view(View{});
  fabric_.set_view(view_of({{kBlue, kPeer, kEsx2}}));
  EXPECT_EQ(answers().size(), 1U) << "the acknowledgement, and nothing is missing";
}

// A VM may come to another shard of its host, by a restart or a motion. Its host learns that first.
TEST_F(FabricConnection, AsksForWhatCameFromAnotherShardOfItsPeersHost) {
  ASSERT_TRUE(port_.bind_gid(verbs::test_gid(51)));
  View view = view_of({{kBlue, kPeer, kEsx2}});
  view.hosts[1] = view.hosts[0];
  view.hosts[1].id = kEsx3;  // esx-02's other shard
  fabric_.set_view(view);
  EXPECT_EQ(ask_as(kEsx3), transport::Delivery::kForeignSource);
  EXPECT_EQ(answers().size(), 0U);
  guest_.wire.place = verbs::PeerPlace(kEsx2.value);
  EXPECT_EQ(port_.place_of(kPeer), guest_.wire.place);
  fabric_.on_restored(kEsx2, now_);  // the peer is asked where it was, and does not hear it
  EXPECT_EQ(answers().size(), 1U);
  view.gids[0].host = kEsx3;
  guest_.wire.place = verbs::PeerPlace(kEsx3.value);
  fabric_.set_view(view);
  EXPECT_EQ(port_.place_of(kPeer), guest_.wire.place);
  const auto asked = answers();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].message.syndrome, verbs::Syndrome::kNakSequence);
}

// It was asked where it was before, and then this port missed the news of where it is.
TEST_F(FabricConnection, AsksAgainWhenItGoesOnAndItsPeerHasMoved) {
  ASSERT_TRUE(port_.bind_gid(verbs::test_gid(51)));
  View view = view_of({{kBlue, kPeer, kEsx2}});
  view.hosts[1] = view.hosts[0];
  view.hosts[1].id = kEsx3;
  fabric_.set_view(view);
  EXPECT_EQ(ask_as(kEsx3), transport::Delivery::kForeignSource);
  guest_.wire.place = verbs::PeerPlace(kEsx2.value);
  fabric_.on_restored(kEsx2, now_);
  EXPECT_EQ(answers().size(), 1U);
  port_.set_stopped(true);
  view.gids[0].host = kEsx3;
  guest_.wire.place = verbs::PeerPlace(kEsx3.value);
  fabric_.set_view(view);
  EXPECT_EQ(answers().size(), 0U);
  port_.set_stopped(false);
  guest_.engine.on_all_paths_restored(now_);
  EXPECT_EQ(answers().size(), 1U);
}

TEST_F(FabricConnection, AsksForWhatCameWhileItWasStopped) {
  ASSERT_TRUE(port_.bind_gid(verbs::test_gid(51)));
  port_.set_stopped(true);
  EXPECT_EQ(ask_as(kEsx2), transport::Delivery::kDelivered);
  fabric_.on_restored(kEsx2, now_);
  EXPECT_EQ(answers().size(), 0U) << "that would be lost";
  port_.set_stopped(false);
  guest_.engine.on_all_paths_restored(now_);
  const auto asked = answers();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].message.syndrome, verbs::Syndrome::kNakSequence);
  port_.set_stopped(true);
  port_.set_link(false);
  ask_as(kEsx2);
  EXPECT_EQ(port_.stopped_engine(), nullptr);
}

// The guest had answered that no receive was posted (RNR). Only this rule makes it notice the repeated
// request.
TEST_F(FabricConnection, AsksForWhatCameAgainWhileItWasStopped) {
  ASSERT_TRUE(port_.bind_gid(verbs::test_gid(51)));
  ask_as(kEsx2, verbs::RequestOp::kSend);
  ASSERT_EQ(answers().at(0).message.syndrome, verbs::Syndrome::kRnrNak);
  port_.set_stopped(true);
  ask_as(kEsx2, verbs::RequestOp::kSend);
  port_.set_stopped(false);
  guest_.engine.on_all_paths_restored(now_);
  const auto asked = answers();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].message.syndrome, verbs::Syndrome::kNakSequence);
}

TEST_F(FabricConnection, StopsWaitingForATransportThatIsGone) {
  guest_.wire.room = 0;
  post(1);
  EXPECT_EQ(sent(), 0U);
  guest_.wire.room = -1;
  fabric_.drop(PathKind::kTcp);
  EXPECT_EQ(sent(), 1U);
}

// A QP that waits for a host that then disappears must not wait for ever: it runs into its timeouts.
TEST_F(FabricConnection, StopsWaitingForAWayThatIsNoMore) {
  guest_.wire.room = 0;
  post(1);
  EXPECT_EQ(sent(), 0U);
  guest_.wire.room = -1;
  fabric_.set_view(View{});
  EXPECT_EQ(sent(), 1U);
}

}  // namespace
}  // namespace pvrdma::fabric
