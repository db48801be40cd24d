#include "fabric/port.h"

#include <cstddef>
#include <gtest/gtest.h>

#include "fabric/fabric_fixture.h"
#include "fabric/switch.h"
#include "support/manual_clock.h"

namespace pvrdma::fabric {
namespace {

class PortTest : public testing::Test {
 protected:
  void SetUp() override {
    transports_.use(transport_);
    ASSERT_TRUE(a_.port.bind_gid(kSource));
  }

  void send_request(End& end, const verbs::Gid& to) {
    EXPECT_TRUE(end.send_request(a_.port, kSource, to, payload_));
  }
  std::uint64_t dropped(DropReason reason) const { return a_.port.counters().dropped_for(reason); }
  const transport::Traffic& sent() const { return a_.port.counters().sent_by(PathKind::kLocal); }

  const verbs::Gid kSource = gid(101);
  const Instant now_{std::chrono::seconds(100)};
  guestmem::SpanList payload_;
  test::ManualClock clock_;
  RecordingTransport transport_{PathKind::kLocal};
  Transports transports_;
  HostGids host_{1};
  Switch switch_{{}, transports_, clock_, host_};
  Node a_{"VM-01", switch_};
  Node b_{"VM-02", switch_};
  Node c_{"VM-03", switch_};
};

TEST_F(PortTest, DeliversEachKindOfMessageToTheHolder) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  std::array<std::byte, 100> bytes{};
  ASSERT_TRUE(payload_.append(bytes.data(), bytes.size()));
  End end;
  verbs::Datagram datagram;
  datagram.from.gid = kSource;
  datagram.to.gid = gid(2);
  send_request(end, gid(2));
  end.slot->send_response({}, payload_, now_);
  a_.port.send_datagram(datagram, payload_, now_);
  EXPECT_EQ(transport_.deliveries,
            (std::vector<Delivery>{{&b_.engine, 'q'}, {&b_.engine, 'r'}, {&b_.engine, 'd'}}));
  EXPECT_EQ(sent().messages, 3U);
  EXPECT_EQ(sent().payload_bytes, 300U);
}

TEST_F(PortTest, AVmThatIsOnItsWayBindsWhenItArrives) {
  Port waiting("VM-04", {}, switch_);
  waiting.wait();
  End end;
  EXPECT_TRUE(waiting.bind_gid(gid(4)));
  EXPECT_TRUE(waiting.bind_gid(gid(5)));
  waiting.unbind_gid(gid(5));
  EXPECT_EQ(switch_.kind_to(gid(4)), PathKind::kNone) << "it is another host's";
  EXPECT_TRUE(b_.port.bind_gid(gid(5)));
  waiting.arrive();
  EXPECT_EQ(switch_.directory().size(), 3U);
  EXPECT_FALSE(waiting.waits());
  waiting.depart();
  EXPECT_TRUE(waiting.waits());
  EXPECT_EQ(switch_.directory().size(), 2U);
  waiting.unbind_gid(gid(4));  // its VMM finally leaves
}

TEST_F(PortTest, SparesRetriesOfWhoWaitsForAVmOnItsWay) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  EXPECT_FALSE(a_.port.spares_retries(gid(2), now_));
  EXPECT_EQ(b_.port.set_stopped(true), 0U);
  EXPECT_TRUE(a_.port.spares_retries(gid(2), now_));
  b_.port.depart();
  EXPECT_TRUE(a_.port.spares_retries(gid(2), now_)) << "the news of where it is may be late";
  EXPECT_FALSE(a_.port.spares_retries(gid(2), now_ + std::chrono::seconds(3)));
  EXPECT_FALSE(a_.port.spares_retries(gid(9), now_)) << "nobody's";
}

TEST_F(PortTest, SparesRetriesOfAnotherHostsVmOnItsWay) {
  const RemoteHost other{.id = transport::HostId(7), .name = "esx-07", .path = PathKind::kTcp, .reason = {}};
  View view{.hosts = {other}, .gids = {{{}, gid(3), other.id, true}}};
  switch_.set_view(view);
  EXPECT_TRUE(a_.port.spares_retries(gid(3), now_));
  view.gids[0].is_moving = false;
  switch_.set_view(view);
  EXPECT_FALSE(a_.port.spares_retries(gid(3), now_));
}

TEST_F(PortTest, SparesRetriesWhileConnectionsToAnotherHostAreMade) {
  RecordingTransport tcp(PathKind::kTcp);
  transports_.use(tcp);
  const transport::HostId other(7);
  switch_.set_view({.hosts = {{.id = other, .name = "esx-07", .path = PathKind::kTcp, .reason = {}}},
                    .gids = {{{}, gid(3), other, false}}});
  tcp.opening = {other};
  EXPECT_TRUE(a_.port.spares_retries(gid(3), now_));
  EXPECT_FALSE(a_.port.spares_retries(gid(4), now_)) << "nobody's";
  tcp.up = {other};
  EXPECT_FALSE(a_.port.spares_retries(gid(3), now_));
  transports_.drop(PathKind::kTcp);
}

// Its live records stay while it restarts. When they are gone, the view has no path to it.
TEST_F(PortTest, SparesRetriesWhileAnotherHostsDaemonRestarts) {
  RecordingTransport tcp(PathKind::kTcp);
  transports_.use(tcp);
  const transport::HostId other(7);
  View view{.hosts = {{.id = other, .name = "esx-07", .path = PathKind::kTcp, .reason = {}}},
            .gids = {{{}, gid(3), other, false}}};
  switch_.set_view(view);
  EXPECT_FALSE(a_.port.spares_retries(gid(3), now_)) << "a network that fails costs retries";
  tcp.stopping = {other};
  EXPECT_TRUE(a_.port.spares_retries(gid(3), now_));
  EXPECT_FALSE(a_.port.spares_retries(gid(4), now_)) << "nobody's";
  tcp.up = {other};
  EXPECT_FALSE(a_.port.spares_retries(gid(3), now_));
  tcp.up.clear();
  view.hosts[0].path = PathKind::kNone;
  switch_.set_view(view);
  EXPECT_FALSE(a_.port.spares_retries(gid(3), now_)) << "it does not come back";
  transports_.drop(PathKind::kTcp);
}

TEST_F(PortTest, SendsByADetourWhileThereIsOne) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  RecordingTransport other(PathKind::kLocal);
  Transports detours;
  End end;
  verbs::Datagram datagram;
  datagram.from.gid = kSource;
  datagram.to.gid = gid(2);
  send_request(end, gid(2));

  detours.use(other);
  a_.port.set_detours(&detours);
  send_request(end, gid(2));
  a_.port.send_datagram(datagram, payload_, now_);
  EXPECT_EQ(other.deliveries, (std::vector<Delivery>{{&b_.engine, 'q'}, {&b_.engine, 'd'}}));
  End back;
  EXPECT_TRUE(back.send_request(b_.port, gid(2), kSource));
  EXPECT_EQ(transport_.deliveries, (std::vector<Delivery>{{&b_.engine, 'q'}, {&a_.engine, 'q'}}))
      << "what others send goes straight";

  a_.port.set_detours(nullptr);
  send_request(end, gid(2));
  EXPECT_EQ(other.deliveries.size(), 2U);
  EXPECT_EQ(transport_.deliveries.back(), (Delivery{&b_.engine, 'q'}));
  EXPECT_EQ(sent().messages, 4U);
}

TEST_F(PortTest, ADetourIsOfItsKindOnly) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  RecordingTransport other(PathKind::kTcp);
  Transports detours;
  detours.use(other);
  a_.port.set_detours(&detours);
  End end;
  send_request(end, gid(2));
  EXPECT_EQ(transport_.deliveries, (std::vector<Delivery>{{&b_.engine, 'q'}}));
}

TEST_F(PortTest, ReachesItself) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  End end;
  send_request(end, gid(1));
  EXPECT_EQ(transport_.deliveries, (std::vector<Delivery>{{&a_.engine, 'q'}}));
}

TEST_F(PortTest, KeepsAPathUntilSomethingChanges) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  End end;
  send_request(end, gid(2));
  send_request(end, gid(2));
  EXPECT_EQ(transport_.opened, 1);
  ASSERT_TRUE(c_.port.bind_gid(gid(3)));
  send_request(end, gid(2));
  send_request(end, gid(2));
  EXPECT_EQ(transport_.opened, 2);
}

TEST_F(PortTest, FollowsAGidThatMoves) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  End end;
  send_request(end, gid(2));
  b_.port.unbind_gid(gid(2));
  send_request(end, gid(2));
  ASSERT_TRUE(c_.port.bind_gid(gid(2)));
  send_request(end, gid(2));
  EXPECT_EQ(transport_.deliveries, (std::vector<Delivery>{{&b_.engine, 'q'}, {&c_.engine, 'q'}}));
  EXPECT_EQ(dropped(DropReason::kUnknownGid), 1U);
}

TEST_F(PortTest, CountsEveryMessageToAGidNobodyHolds) {
  End end;
  send_request(end, gid(9));
  send_request(end, gid(9));
  verbs::Datagram datagram;
  datagram.from.gid = kSource;
  datagram.to.gid = gid(9);
  a_.port.send_datagram(datagram, payload_, now_);
  EXPECT_TRUE(transport_.deliveries.empty());
  EXPECT_EQ(dropped(DropReason::kUnknownGid), 3U);
  EXPECT_EQ(sent().messages, 0U);
}

TEST_F(PortTest, CountsMessagesToADetachedPortByTheirReason) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  End end;
  send_request(end, gid(2));
  b_.port.detach();
  b_.port.detach();
  EXPECT_FALSE(b_.port.attached());
  send_request(end, gid(2));
  send_request(end, gid(2));
  EXPECT_EQ(transport_.deliveries.size(), 1U);
  EXPECT_EQ(dropped(DropReason::kPortDetached), 2U);
  b_.port.attach(b_.engine);
  send_request(end, gid(2));
  EXPECT_EQ(transport_.deliveries.size(), 2U);
}

// When a VM dies, its engine unbinds the guest's GIDs. VM-01 keeps using a connection whose source GID it has
// unbound and VM-03 has bound meanwhile.
TEST_F(PortTest, NobodySpeaksAsAGidThatIsAnothers) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  End end;
  send_request(end, gid(2));
  a_.port.unbind_gid(kSource);
  send_request(end, gid(2));
  ASSERT_TRUE(c_.port.bind_gid(kSource));
  send_request(end, gid(2));
  EXPECT_EQ(transport_.deliveries.size(), 1U);
  EXPECT_EQ(dropped(DropReason::kForeignSource), 2U);
}

TEST_F(PortTest, NothingPassesALinkThatIsDown) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  End end;
  send_request(end, gid(2));
  b_.port.set_link(false);
  send_request(end, gid(2));
  b_.port.set_link(true);
  a_.port.set_link(false);
  send_request(end, gid(2));
  EXPECT_EQ(transport_.deliveries.size(), 1U);
  EXPECT_EQ(dropped(DropReason::kLinkDown), 2U);
  a_.port.set_link(true);
  send_request(end, gid(2));
  EXPECT_EQ(transport_.deliveries.size(), 2U) << "the connection goes on when both links are up again";
}

TEST_F(PortTest, NothingPassesWhileItIsStopped) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  End end, back;
  b_.port.set_stopped(true);
  send_request(end, gid(2));
  EXPECT_EQ(b_.port.receiver(), nullptr);
  EXPECT_TRUE(back.send_request(b_.port, gid(2), kSource));
  verbs::Datagram datagram;
  datagram.from.gid = gid(2);
  datagram.to.gid = kSource;
  b_.port.send_datagram(datagram, payload_, now_);
  EXPECT_TRUE(transport_.deliveries.empty());
  EXPECT_EQ(dropped(DropReason::kPortDetached), 1U);
  EXPECT_EQ(b_.port.counters().dropped_for(DropReason::kPortDetached), 3U);
  EXPECT_EQ(switch_.path_to(gid(2)).reason, "the adapter behind the port that holds the GID is stopped");
  EXPECT_FALSE(c_.port.bind_gid(gid(2))) << "it is bound still";
  b_.port.set_stopped(false);
  send_request(end, gid(2));
  EXPECT_TRUE(back.send_request(b_.port, gid(2), kSource));
  EXPECT_EQ(b_.port.receiver(), &b_.engine);
  EXPECT_EQ(transport_.deliveries.size(), 2U);
}

TEST_F(PortTest, AnEngineThatIsResetIsNotFoundAnyMore) {
  ASSERT_TRUE(b_.engine.bind_gid(0, gid(2), RoceVersion::kV2));
  End end;
  send_request(end, gid(2));
  EXPECT_EQ(transport_.deliveries.size(), 1U);
  b_.engine.reset();
  send_request(end, gid(2));
  EXPECT_EQ(transport_.deliveries.size(), 1U);
  EXPECT_EQ(dropped(DropReason::kUnknownGid), 1U);
  EXPECT_EQ(switch_.path_to(gid(2)).kind, PathKind::kNone);
}

TEST_F(PortTest, TheGuestLearnsThatItsGidIsTaken) {
  ASSERT_TRUE(a_.engine.bind_gid(0, gid(2), RoceVersion::kV2));
  const auto bound = b_.engine.bind_gid(0, gid(2), RoceVersion::kV2);
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error(), verbs::CommandError::kAddressInUse);
}

}  // namespace
}  // namespace pvrdma::fabric
