#include "fabric/switch.h"

#include <gtest/gtest.h>

#include "fabric/fabric_fixture.h"
#include "fabric/port.h"
#include "support/manual_clock.h"

namespace pvrdma::fabric {
namespace {

class SwitchTest : public testing::Test {
 protected:
  test::ManualClock clock_;
  Transports transports_;
  HostGids host_{1};
  Switch switch_{{}, transports_, clock_, host_};
  Node a_{"VM-01", switch_};
  Node b_{"VM-02", switch_};
};

TEST_F(SwitchTest, KnowsWhichPortHoldsAGid) {
  EXPECT_TRUE(b_.port.bind_gid(gid(2)));
  EXPECT_TRUE(a_.port.bind_gid(gid(1)));
  const auto holders = switch_.directory();
  ASSERT_EQ(holders.size(), 2U);
  EXPECT_EQ(holders[0].gid, gid(1));
  EXPECT_EQ(holders[0].port, "VM-01");
  EXPECT_EQ(holders[1].port, "VM-02");
}

TEST_F(SwitchTest, RefusesAGidThatAnotherPortHoldsAndCountsIt) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  EXPECT_FALSE(b_.port.bind_gid(gid(1)));
  EXPECT_FALSE(b_.port.bind_gid(gid(1)));
  EXPECT_EQ(switch_.duplicates_refused(), 2U);
  EXPECT_EQ(switch_.directory()[0].port, "VM-01");
  a_.port.unbind_gid(gid(1));
  EXPECT_TRUE(b_.port.bind_gid(gid(1))) << "free again";
}

TEST_F(SwitchTest, BindingTwiceOnOnePortIsNoDuplicate) {
  EXPECT_TRUE(a_.port.bind_gid(gid(1)));
  EXPECT_TRUE(a_.port.bind_gid(gid(1)));
  EXPECT_EQ(switch_.duplicates_refused(), 0U);
  EXPECT_EQ(switch_.directory().size(), 1U);
}

TEST_F(SwitchTest, NoPortUnbindsAnothersGid) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  b_.port.unbind_gid(gid(1));
  b_.port.unbind_gid(gid(9));
  EXPECT_EQ(switch_.directory().size(), 1U);
}

TEST_F(SwitchTest, APortThatGoesTakesItsGidsAlong) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  {
    Port passing("VM-03", {}, switch_);
    ASSERT_TRUE(passing.bind_gid(gid(3)));
    ASSERT_TRUE(passing.bind_gid(gid(4)));
    EXPECT_EQ(switch_.directory().size(), 3U);
  }
  EXPECT_EQ(switch_.directory().size(), 1U);
  EXPECT_EQ(switch_.path_to(gid(3)).kind, PathKind::kNone);
}

// The link-local GID (fe80::/64) of a MAC, as the kernel's RoCE and IPv6 derive it.
verbs::Gid of_mac(const Mac& mac, std::uint8_t prefix = 0xfe) {
  verbs::Gid gid;
  gid.bytes = {prefix, 0x80, 0, 0, 0, 0, 0, 0};
  const auto& m = mac.raw;
  const std::array<std::uint8_t, 8> identifier{
      static_cast<std::uint8_t>(m[0] ^ 2), m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  std::copy(identifier.begin(), identifier.end(), gid.bytes.begin() + 8);
  return gid;
}

TEST_F(SwitchTest, AGidMadeOfAMacIsThePortsWithThatMac) {
  const Mac victim = Mac::parse("52:54:00:12:34:51").value();
  const Mac thief = Mac::parse("52:54:00:12:34:52").value();
  Node b("VM-B", switch_, {.mac = victim});
  Node a("VM-A", switch_, {.mac = thief});
  for (const std::uint8_t prefix : std::array<std::uint8_t, 2>{0xfe, 0x20}) {
    EXPECT_FALSE(a.engine.bind_gid(0, of_mac(victim, prefix), RoceVersion::kV2)) << "although it is first";
    EXPECT_TRUE(b.engine.bind_gid(prefix == 0xfe ? 0 : 1, of_mac(victim, prefix), RoceVersion::kV2));
  }
  EXPECT_FALSE(a_.port.bind_gid(of_mac(Mac::parse("52:54:00:00:00:77").value()))) << "nobody's yet";
  EXPECT_TRUE(a.port.bind_gid(of_mac(thief)));
  EXPECT_EQ(switch_.foreign_refused(), 3U);
  EXPECT_EQ(switch_.duplicates_refused(), 0U);
}

TEST_F(SwitchTest, AnIpv4AddressIsNotTakenForAMac) {
  const verbs::Gid address = to_gid(IpAddress::parse("254.18.52.81").value());
  EXPECT_EQ(address.to_string(), "::ffff:254.18.52.81");
  EXPECT_EQ(mac_in(address), std::nullopt);
  EXPECT_TRUE(a_.port.bind_gid(address));
}

TEST_F(SwitchTest, APortWithAListOfAddressesHasNoOthersAndNobodyElseHasThem) {
  const Mac mac = Mac::parse("52:54:00:12:34:51").value();
  const verbs::Gid v4 = to_gid(IpAddress::parse("10.0.0.5").value());
  const verbs::Gid v6 = to_gid(IpAddress::parse("fd00::5").value());
  {
    Node listed("VM-L", switch_, {.mac = mac, .addresses = {v4, v6}});
    EXPECT_FALSE(a_.port.bind_gid(v4));
    EXPECT_FALSE(a_.port.bind_gid(v6));
    EXPECT_TRUE(listed.port.bind_gid(v4));
    EXPECT_TRUE(listed.port.bind_gid(v6));
    EXPECT_TRUE(listed.port.bind_gid(of_mac(mac)));
    EXPECT_FALSE(listed.port.bind_gid(to_gid(IpAddress::parse("10.0.0.6").value())));
    EXPECT_EQ(switch_.foreign_refused(), 3U);
  }
  EXPECT_TRUE(a_.port.bind_gid(v4)) << "it is free when the port is gone";
  // The view reserves an address for a port of another host.
  switch_.set_view({.reserved = {{switch_.segment(), v6, "VM-09"}, {{1, 2}, gid(7), "VM-09"}}});
  EXPECT_FALSE(a_.port.bind_gid(v6));
  EXPECT_TRUE(a_.port.bind_gid(gid(7))) << "reserved in another segment";
  switch_.set_view({});
  EXPECT_TRUE(a_.port.bind_gid(v6));
}

// Both hosts bound it before either knew of the other. The store has the other host's record.
TEST_F(SwitchTest, AGidThatAnotherHostHoldsAccordingToTheStoreIsLostUntilItLetsGo) {
  RecordingTransport local(PathKind::kLocal);
  RecordingTransport tcp(PathKind::kTcp);
  Transports transports;
  transports.use(local);
  transports.use(tcp);
  Switch here({1, 2}, transports, clock_, host_);
  Node a("VM-A", here);
  Node b("VM-B", here);
  ASSERT_TRUE(a.engine.bind_gid(0, gid(1), RoceVersion::kV2));
  ASSERT_TRUE(b.engine.bind_gid(0, gid(2), RoceVersion::kV2));
  End from_a;
  End from_b;
  ASSERT_TRUE(from_a.send_request(a.port, gid(1), gid(2)));
  ASSERT_TRUE(from_b.send_request(b.port, gid(2), gid(1)));
  ASSERT_EQ(local.deliveries.size(), 2U);

  const transport::HostId other{5};
  const View stores{.hosts = {{other, "esx-02", PathKind::kTcp, "both are tagged"}},
                    .gids = {{{1, 2}, gid(1), other}}};
  here.set_view(stores);
  EXPECT_EQ(here.gids_lost(), 1U);
  ASSERT_NE(here.lost_to(a.port, gid(1)), nullptr);
  EXPECT_EQ(*here.lost_to(a.port, gid(1)), "esx-02");
  EXPECT_EQ(here.lost_to(b.port, gid(2)), nullptr);
  EXPECT_EQ(here.directory().size(), 1U);
  from_a.send_request(a.port, gid(1), gid(2));
  EXPECT_EQ(a.port.counters().dropped_for(DropReason::kForeignSource), 1U) << "not in that name";
  ASSERT_TRUE(from_b.send_request(b.port, gid(2), gid(1)));
  EXPECT_EQ(local.deliveries.size(), 2U);
  EXPECT_EQ(tcp.deliveries, (std::vector<Delivery>{{nullptr, 'q', other, {1, 2}}})) << "to who holds it";
  EXPECT_EQ(here.admit(other, gid(1), gid(1)).verdict, transport::Delivery::kUnknownGid);
  EXPECT_EQ(here.admit(other, gid(1), gid(2)).verdict, transport::Delivery::kDelivered);
  EXPECT_FALSE(b.engine.bind_gid(1, gid(1), RoceVersion::kV2));

  here.set_view({.hosts = stores.hosts});
  EXPECT_EQ(here.lost_to(a.port, gid(1)), nullptr);
  ASSERT_TRUE(from_a.send_request(a.port, gid(1), gid(2)));
  ASSERT_TRUE(from_b.send_request(b.port, gid(2), gid(1)));
  EXPECT_EQ(local.deliveries.size(), 4U);
  EXPECT_EQ(here.gids_lost(), 1U);

  here.set_view(stores);
  ASSERT_TRUE(a.engine.unbind_gid(0, gid(1))) << "its guest may let go of what it has lost";
  EXPECT_EQ(here.lost_to(a.port, gid(1)), nullptr);
}

TEST_F(SwitchTest, AVmThatHasComeHasLostNothingToTheHostThatItLeft) {
  Switch here({1, 2}, transports_, clock_, host_);
  Port come("VM-C", {}, here);
  come.wait();
  ASSERT_TRUE(come.bind_gid(gid(1)));
  const RemoteHost left{.id = transport::HostId(5), .name = "esx-02", .path = PathKind::kTcp, .reason = {}};
  const View old{.hosts = {left}, .gids = {{{1, 2}, gid(1), left.id}}};
  come.arrive();
  here.set_view(old);
  EXPECT_EQ(here.lost_to(come, gid(1)), nullptr);
  here.set_view(old);
  EXPECT_EQ(here.gids_lost(), 0U);
  clock_.advance(std::chrono::seconds(2));
  here.set_view(old);
  EXPECT_NE(here.lost_to(come, gid(1)), nullptr) << "it is no old view by now";
}

TEST_F(SwitchTest, TellsThePathAndWhy) {
  EXPECT_EQ(switch_.path_to(gid(2)).kind, PathKind::kNone);
  EXPECT_EQ(switch_.path_to(gid(2)).reason, "no port holds the GID");
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  EXPECT_EQ(switch_.path_to(gid(2)).kind, PathKind::kLocal);
  EXPECT_EQ(switch_.path_to(gid(2)).reason, "both ports are on this host");
  b_.port.detach();
  EXPECT_EQ(switch_.path_to(gid(2)).kind, PathKind::kNone);
  EXPECT_EQ(switch_.path_to(gid(2)).reason, "no adapter is behind the port that holds the GID");
}

TEST(PathNames, AreStable) {
  EXPECT_EQ(to_text(PathKind::kNone), "none");
  EXPECT_EQ(to_text(PathKind::kLocal), "local");
  EXPECT_EQ(to_text(PathKind::kTcp), "tcp");
  EXPECT_EQ(name_of(DropReason::kNoPath), "no_path");
  EXPECT_EQ(name_of(DropReason::kUnknownGid), "unknown_gid");
  EXPECT_EQ(name_of(DropReason::kPortDetached), "port_detached");
}

}  // namespace
}  // namespace pvrdma::fabric
