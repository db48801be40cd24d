#include "cluster/shard_view.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "cluster/cluster_fixture.h"
#include "fabric/reservations.h"

namespace pvrdma::cluster {
namespace {

namespace edits = control::edits;

class ShardViewTest : public testing::Test {
 protected:
  ShardView view() { return compute_view(inventory_, "esx-01", "/run/pvrdma", ids_); }
  const fabric::RemoteHost& host(const ShardView& view, const std::string& name) {
    for (const auto& each : view.fabric.hosts) {
      if (each.name == name) return each;
    }
    ADD_FAILURE() << "no host " << name;
    return view.fabric.hosts.at(0);
  }

  control::Inventory inventory_ = three_hosts();
  HostIds ids_;
};

TEST(HostIds, AreStableAndDifferent) {
  HostIds ids;
  const auto second = ids.of("esx-02");
  const auto first = ids.of("esx-01");
  EXPECT_NE(first, second);
  EXPECT_EQ(ids.of("esx-02"), second);
  EXPECT_EQ(ids.of("esx-01"), first);
}

TEST(HostIds, EachShardHasItsOwn) {
  HostIds ids;
  const auto second = ids.of("esx-02", transport::ShardNumber(1));
  EXPECT_NE(ids.of("esx-02"), second);
  EXPECT_NE(ids.of("esx-01", transport::ShardNumber(1)), second);
  EXPECT_TRUE(ids.is_of("esx-02", second));
  EXPECT_FALSE(ids.is_of("esx-01", second));
  EXPECT_FALSE(ids.is_of("esx-01", transport::HostId(9)));
}

TEST_F(ShardViewTest, EachShardOfAnotherHostIsAPeer) {
  inventory_.live_hosts.at("esx-02").shards = 2;
  inventory_.gids[gid_key(inventory_, "a2")] = {"VM-02", "esx-02", 1};
  inventory_.gids[gid_key(inventory_, "a3")] = {"VM-03", "esx-03",
                                                2};  // its live record says nothing of that
  const ShardView made = view();
  std::vector<std::pair<std::string, std::uint16_t>> peers;
  for (const transport::TcpPeer& peer : made.tcp.peers) {
    peers.emplace_back(peer.name, peer.shard.value);
    EXPECT_EQ(peer.id, ids_.of(peer.name, peer.shard));
  }
  EXPECT_EQ(peers, (std::vector<std::pair<std::string, std::uint16_t>>{
                       {"esx-02", 0}, {"esx-02", 1}, {"esx-03", 0}, {"esx-03", 1}, {"esx-03", 2}}));
  ASSERT_EQ(made.fabric.hosts.size(), 5U);
  ASSERT_EQ(made.fabric.gids.size(), 2U);
  EXPECT_EQ(made.fabric.gids[0].host, ids_.of("esx-02", transport::ShardNumber(1)));
  inventory_.vms.at("VM-02").host = "esx-03";  // it has moved, and its record has not
  EXPECT_EQ(view().fabric.gids[0].host, ids_.of("esx-03"));
}

TEST_F(ShardViewTest, WantsTheAdaptersOfTheVmsPlacedHere) {
  must(edits::create_vm(inventory_, {.name = "VM-09", .host = "esx-01", .memory_mib = 512}));
  const auto adapters = view().adapters;
  ASSERT_EQ(adapters.size(), 1U) << "VM-09 has no adapter, the others are elsewhere";
  EXPECT_EQ(adapters[0].config.name, "VM-01");
  EXPECT_EQ(adapters[0].config.socket, "/run/pvrdma/VM-01.sock");
  EXPECT_EQ(adapters[0].config.mac, inventory_.vms.at("VM-01").adapter->mac);
  EXPECT_EQ(adapters[0].config.hardware_version, HardwareVersion::k14);
  EXPECT_EQ(adapters[0].config.roce, RoceVersion::kV2);
  EXPECT_EQ(adapters[0].segment, (transport::SegmentId{inventory_.switches.at("dvs1").id, 7}));
  EXPECT_EQ(adapters[0].refusal, "");
  EXPECT_EQ(adapters[0].memory_mib, 1024u);
}

TEST_F(ShardViewTest, AnAdapterHasItsVmsDoorbellMode) {
  EXPECT_EQ(view().adapters.at(0).config.doorbells, kDoorbellModeDefault);
  must(edits::change_vm(inventory_, "VM-01", {.doorbells = DoorbellMode::kTrapped}));
  EXPECT_EQ(view().adapters.at(0).config.doorbells, DoorbellMode::kTrapped);
  EXPECT_EQ(view().adapters.at(0).config.mtu, 1500);
  const control::VmAdapter& adapter = *inventory_.vms.at("VM-01").adapter;
  must(edits::change_portgroup(inventory_, adapter.dvs, adapter.portgroup, {.mtu = 9000}));
  EXPECT_EQ(view().adapters.at(0).config.mtu, 9000);
}

TEST_F(ShardViewTest, PortGroupsSayWhoMayReachNativeEndpoints) {
  EXPECT_TRUE(view().fabric.natives.empty());
  const std::uint32_t dvs = inventory_.switches.at("dvs1").id;
  EXPECT_EQ(view().switches, (std::map<std::string, std::uint32_t>{{"dvs1", dvs}}));
  const std::vector<IpNetwork> peers{IpNetwork::parse("192.168.0.0/16").value()};
  must(edits::change_portgroup(inventory_, "dvs1", "pg1", {.native_endpoints = true, .native_peers = peers}));
  must(edits::add_portgroup(inventory_, "dvs1", "beside", {.vlan = 7}));
  must(edits::add_portgroup(inventory_, "dvs1", "other", {.vlan = 8}));
  must(edits::add_portgroup(inventory_, "dvs1", "any", {.vlan = 9, .native_endpoints = true}));
  EXPECT_EQ(view().fabric.natives, (std::vector<fabric::NativeRule>{{{dvs, 7}, peers}, {{dvs, 9}, {}}}));
  inventory_.switches.at("dvs1").portgroups.at("pg1").native_endpoints = false;  // an older daemon's edit
  EXPECT_EQ(view().fabric.natives, (std::vector<fabric::NativeRule>{{{dvs, 9}, {}}}));
}

TEST_F(ShardViewTest, AnotherHostsRecordGivesNobodyAGidThatIsNotItsVms) {
  const std::string suffix = inventory_.vms.at("VM-03").adapter->mac.to_string();
  const auto of_vm3 = [&](const std::string& prefix) {  // 52:54:00:xx:yy:zz
    return gid_key(inventory_, prefix + "0000000000005054" + "00fffe" + suffix.substr(9, 2) +
                                   suffix.substr(12, 2) + suffix.substr(15, 2));
  };
  inventory_.gids[of_vm3("fe80")] = {"VM-02", "esx-02"};
  inventory_.gids[gid_key(inventory_, "ffff0a000005")] = {"VM-02", "esx-02"};
  EXPECT_EQ(view().fabric.gids.size(), 1U) << "the address, not what is made of VM-03's MAC";
  inventory_.gids[of_vm3("fe80")] = {"VM-03", "esx-03"};
  EXPECT_EQ(view().fabric.gids.size(), 2U);
  must(edits::change_vm(inventory_, "VM-02", {.addresses = {{IpAddress::parse("10.0.0.6").value()}}}));
  EXPECT_EQ(view().fabric.gids.size(), 1U) << "not among VM-02's addresses";
  inventory_.gids[gid_key(inventory_, "ffff0a000006")] = {"VM-02", "esx-03"};
  ASSERT_EQ(view().fabric.gids.size(), 2U);
  EXPECT_TRUE(std::ranges::all_of(view().fabric.gids, [this](const fabric::RemoteGid& each) {
    return each.host == ids_.of("esx-02") || !each.is_moving;
  })) << "VM-02 is on esx-02, whatever a record says";
  inventory_.gids[gid_key(inventory_, "ffff0a000006")] = {"VM-02", "esx-02"};
  EXPECT_EQ(view().fabric.gids.size(), 2U);
}

TEST_F(ShardViewTest, AVmOnItsWayIsExpectedAndItsGidsAreSpared) {
  inventory_.powered_on["VM-02"] = "esx-02";
  inventory_.gids[gid_key(inventory_, "ffff0a000005")] = {"VM-02", "esx-02"};
  EXPECT_FALSE(view().fabric.gids.at(0).is_moving);
  inventory_.vms.at("VM-02").motion = control::VmMotion{"m1", "esx-01"};
  const ShardView expected = view();
  EXPECT_EQ(expected.fabric.gids.at(0).host, ids_.of("esx-02"));
  EXPECT_TRUE(expected.fabric.gids.at(0).is_moving);
  const auto arriving = [](const ShardView& each) {
    std::vector<std::string> names;
    for (const auto& adapter : each.adapters)
      if (adapter.is_arriving) names.push_back(adapter.config.name + adapter.refusal);
    return names;
  };
  EXPECT_EQ(arriving(expected), std::vector<std::string>{"VM-02"});
  inventory_.vms.at("VM-02").host = "esx-01";
  inventory_.vms.at("VM-02").motion.reset();
  EXPECT_TRUE(arriving(view()).empty());
  EXPECT_TRUE(view().fabric.gids.empty()) << "the record of its last host";
  const ShardView third = compute_view(inventory_, "esx-02", "/run/pvrdma", ids_);
  ASSERT_EQ(third.fabric.gids.size(), 1U);
  EXPECT_EQ(third.fabric.gids.at(0).host, ids_.of("esx-01"));
  EXPECT_TRUE(third.fabric.gids.at(0).is_moving) << "until its new host has the record";
}

TEST_F(ShardViewTest, AddressesOfVmsAreReservedAndGoToTheAdapter) {
  const IpAddress address = IpAddress::parse("10.0.0.5").value();
  must(edits::change_vm(inventory_, "VM-01", {.addresses = {{address}}}));
  EXPECT_EQ(view().adapters.at(0).config.addresses, std::vector{address});
  const transport::SegmentId segment{inventory_.switches.at("dvs1").id, 7};
  EXPECT_EQ(view().fabric.reserved,
            (std::vector<fabric::ReservedGid>{{segment, fabric::to_gid(address), "VM-01"}}));
}

TEST_F(ShardViewTest, ASocketHasTheOwnerThatThisHostKnowsByThatName) {
  must(edits::change_vm(inventory_, "VM-01", {.owner = "vm-01", .group = "kvm"}));
  const auto known = [](const std::string& user, const std::string& group) -> Result<SocketOwner> {
    EXPECT_EQ(user + group, "vm-01kvm");
    return SocketOwner{.user = 1001, .group = 77};
  };
  const auto adapter = compute_view(inventory_, "esx-01", "/run/pvrdma", ids_, known).adapters.at(0);
  EXPECT_EQ(adapter.config.owner, (SocketOwner{.user = 1001, .group = 77}));
  EXPECT_EQ(adapter.trouble, "");
  const auto unknown = [](const std::string&, const std::string&) -> Result<SocketOwner> {
    return fail(ENOENT, "this host has no user vm-01: make it or name another");
  };
  EXPECT_EQ(compute_view(inventory_, "esx-01", "/run/pvrdma", ids_, unknown).adapters.at(0).trouble,
            "its socket cannot be given to its owner: this host has no user vm-01: make it or name another");
}

TEST_F(ShardViewTest, SaysWhichRuleForbidsToPowerOn) {
  inventory_.vms.at("VM-01").memory_reserved_mib = 512;
  EXPECT_NE(view().adapters.at(0).refusal.find("reserved"), std::string::npos) << view().adapters[0].refusal;
}

TEST_F(ShardViewTest, AVmWhoseSwitchIsGoneStaysOutOfEverySegment) {
  inventory_.switches.clear();
  const adapters::WantedAdapter adapter = view().adapters.at(0);
  EXPECT_EQ(adapter.segment, transport::SegmentId{});
  EXPECT_NE(adapter.refusal, "");
}

TEST_F(ShardViewTest, GivesEachHardwareVersionItsAdapter) {
  const std::pair<std::uint32_t, std::uint32_t> expected[] = {{13, 13}, {14, 14}, {15, 14}, {17, 17},
                                                              {18, 18}, {19, 18}, {21, 18}};
  for (const auto& [vm, adapter] : expected) {
    inventory_.vms.at("VM-01").hardware_version = vm;
    EXPECT_EQ(number_of(view().adapters.at(0).config.hardware_version), adapter) << vm;
  }
}

TEST_F(ShardViewTest, ReachesHostsThatTakePart) {
  must(edits::set_ruleset(inventory_, "esx-03", edits::kRuleset, false, std::nullopt));
  const ShardView seen = view();
  ASSERT_EQ(seen.fabric.hosts.size(), 2U);
  EXPECT_EQ(host(seen, "esx-02").path, fabric::PathKind::kTcp);
  EXPECT_EQ(host(seen, "esx-03").path, fabric::PathKind::kNone);
  EXPECT_NE(host(seen, "esx-03").reason.find("esx-03"), std::string::npos);
  EXPECT_EQ(seen.tcp.address, IpAddress::parse("10.0.0.1").value());
  ASSERT_EQ(seen.tcp.peers.size(), 1U);
  EXPECT_EQ(seen.tcp.peers[0].id, ids_.of("esx-02"));
  EXPECT_EQ(seen.tcp.peers[0].address, IpAddress::parse("10.0.0.2").value());
}

TEST_F(ShardViewTest, GoesThroughTheHcasOfBothHosts) {
  EXPECT_EQ(view().hca.device, "");
  for (const char* name : {"esx-01", "esx-02"}) {
    control::RdmaDevice device;
    device.name = "vmrdma0";
    device.device = std::string("mlx5_of_") + name;
    device.active = device.roce_v2 = true;
    device.paired_uplink = "vmnic0";
    inventory_.live_hosts.at(name).rdma_devices = {device};
    inventory_.switches.at("dvs1").members.at(name) = {{"uplink1", "vmnic0"}};
  }
  const ShardView seen = view();
  EXPECT_EQ(host(seen, "esx-02").path, fabric::PathKind::kHca);
  EXPECT_EQ(host(seen, "esx-02").hca_switches, std::vector{inventory_.switches.at("dvs1").id});
  EXPECT_EQ(host(seen, "esx-03").path, fabric::PathKind::kTcp);
  EXPECT_EQ(seen.tcp.peers.size(), 2U) << "introductions go by tcp, and all else while hca is not up";
  EXPECT_EQ(seen.hca.device, "mlx5_of_esx-01");
  EXPECT_EQ(seen.hca.tagged, fabric::to_gid(IpAddress::parse("10.0.0.1").value()));
  const transport::HcaPeer first{ids_.of("esx-02"), "esx-02"};
  EXPECT_EQ(seen.hca.peers, std::vector{first});
  inventory_.live_hosts.at("esx-02").shards = 2;
  const transport::HostId second = ids_.of("esx-02", transport::ShardNumber(1));
  const ShardView with_older = view();
  const auto there = std::ranges::find(with_older.fabric.hosts, second, &fabric::RemoteHost::id);
  EXPECT_EQ(there->path, fabric::PathKind::kTcp);
  EXPECT_EQ(there->reason, kOtherShardReason);
  EXPECT_EQ(with_older.hca.peers, std::vector{first});
  inventory_.live_hosts.at("esx-02").hca_shards = 2;
  const ShardView with_newer = view();
  EXPECT_EQ(std::ranges::find(with_newer.fabric.hosts, second, &fabric::RemoteHost::id)->path,
            fabric::PathKind::kHca);
  EXPECT_EQ(with_newer.hca.peers,
            (std::vector{first, transport::HcaPeer{second, "esx-02", transport::ShardNumber(1)}}));
}

TEST_F(ShardViewTest, ListensOnlyWithATaggedVmknicAndTheRuleset) {
  const control::Inventory before = inventory_;
  must(edits::set_ruleset(inventory_, "esx-01", edits::kRuleset, false, std::nullopt));
  EXPECT_FALSE(view().tcp.address);
  EXPECT_TRUE(view().tcp.peers.empty());
  must(edits::set_firewall(inventory_, "esx-01", false));
  EXPECT_TRUE(view().tcp.address) << "without a firewall the ruleset does not count";
  EXPECT_FALSE(view().tcp.peers.empty());
  inventory_ = before;
  must(edits::set_advanced(inventory_, "esx-01", edits::kPvrdmaVmknic, ""));
  EXPECT_FALSE(view().tcp.address);
  inventory_ = before;
  must(edits::set_ruleset(inventory_, "esx-01", edits::kRuleset, std::nullopt, false));
  must(edits::add_allowed_ip(inventory_, "esx-01", edits::kRuleset, "10.0.0.2"));
  const ShardView some = view();
  EXPECT_FALSE(some.tcp.allow_all);
  ASSERT_EQ(some.tcp.allowed.size(), 1U);
  EXPECT_EQ(some.tcp.peers.size(), 1U) << "esx-03 is not admitted";
}

TEST_F(ShardViewTest, KnowsTheGidsOfOtherHosts) {
  inventory_.gids[gid_key(inventory_, "a1")] = {"VM-01", "esx-01"};
  inventory_.gids[gid_key(inventory_, "a2")] = {"VM-02", "esx-02"};
  inventory_.gids[gid_key(inventory_, "a9")] = {"VM-09", "no such host"};
  inventory_.gids[{{1, 7}, "no GID"}] = {"VM-02", "esx-02"};
  const auto gids = view().fabric.gids;
  ASSERT_EQ(gids.size(), 1U);
  EXPECT_EQ(gids[0].gid.bytes[15], 0xa2);
  EXPECT_EQ(gids[0].segment.vlan, 7);
  EXPECT_EQ(gids[0].host, ids_.of("esx-02"));
  EXPECT_EQ(to_hex(gids[0].gid.bytes), gid_key(inventory_, "a2").gid);
}

TEST_F(ShardViewTest, ItsOwnLapsedLeaseChangesNothing) {
  const ShardView before = view();
  inventory_.live_hosts.erase("esx-01");
  EXPECT_EQ(view(), before);
}

}  // namespace
}  // namespace pvrdma::cluster
