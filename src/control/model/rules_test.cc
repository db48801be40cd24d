#include "control/model/rules.h"

#include "control/model/model_fixture.h"

namespace pvrdma::control {
namespace {

using test::some_cluster;
using testing::HasSubstr;

struct PowerOnCase {
  const char* what;
  std::function<void(Inventory&)> spoil;
  ErrorKind kind;
  std::vector<std::string> essentials;
};

TEST(PowerOn, IsRefusedByEachRule) {
  const Inventory good = some_cluster();
  ASSERT_TRUE(check_power_on(good, "vm-a"));
  const std::vector<PowerOnCase> cases{
      {"no such VM", [](Inventory& i) { i.vms.erase("vm-a"); }, ErrorKind::kNotFound, {"vm-a", "vm list"}},
      {"no adapter",
       [](Inventory& i) { i.vms.at("vm-a").adapter.reset(); },
       ErrorKind::kConflict,
       {"vm-a", "no PVRDMA adapter"}},
      {"memory not all reserved",
       [](Inventory& i) { i.vms.at("vm-a").memory_reserved_mib = 1023; },
       ErrorKind::kConflict,
       {"vm-a", "1024 MiB", "1023 reserved", "vm set vm-a --reserve 1024"}},
      {"switch gone",
       [](Inventory& i) { i.switches.clear(); },
       ErrorKind::kNotFound,
       {"vm-a", "\"dvs\"", "dvs create"}},
      {"port group gone",
       [](Inventory& i) { i.switches.at("dvs").portgroups.clear(); },
       ErrorKind::kNotFound,
       {"vm-a", "\"pg\"", "dvs"}},
      {"host no member",
       [](Inventory& i) { i.switches.at("dvs").members.erase("esx-01"); },
       ErrorKind::kConflict,
       {"esx-01", "vm-a", "dvs", "add-host"}},
      {"an RDMA device came to a teamed uplink",
       [](Inventory& i) {
         i.switches.at("dvs").members.at("esx-01") = {{"uplink1", "vmnic0"}, {"uplink2", "vmnic1"}};
       },
       ErrorKind::kConflict,
       {"vmnic0", "esx-01", "vmrdma0", "no teaming"}},
      {"switch too old",
       [](Inventory& i) { i.switches.at("dvs").version = "6.0.0"; },
       ErrorKind::kConflict,
       {"dvs", "6.0.0", "6.5.0"}},
      {"hardware version too old",
       [](Inventory& i) { i.vms.at("vm-a").hardware_version = 12; },
       ErrorKind::kConflict,
       {"vm-a", "12", "13 or later"}},
      {"hardware version of a newer pvrdmad",
       [](Inventory& i) { i.vms.at("vm-a").hardware_version = 22; },
       ErrorKind::kConflict,
       {"vm-a", "22", "17 to 21"}},
      {"v2 on 13",
       [](Inventory& i) { i.vms.at("vm-a").hardware_version = 13; },
       ErrorKind::kConflict,
       {"vm-a", "13", "RoCE v2", "14"}},
      {"runs elsewhere",
       [](Inventory& i) { i.powered_on["vm-a"] = "esx-02"; },
       ErrorKind::kConflict,
       {"vm-a", "placed on host esx-01", "esx-02"}},
  };
  for (const PowerOnCase& each : cases) {
    SCOPED_TRACE(each.what);
    Inventory inventory = good;
    each.spoil(inventory);
    const auto result = check_power_on(inventory, "vm-a");
    ASSERT_FALSE(result);
    test::expect_sentence(result.error(), each.kind, each.essentials);
  }
  Inventory on = good;
  on.powered_on["vm-a"] = "esx-01";
  EXPECT_TRUE(check_power_on(on, "vm-a")) << "it is on already, where it should be";
}

struct PathCase {
  std::function<void(Inventory&)> spoil;
  HostPath kind;
  std::string reason;
};

// No teaming on both hosts.
void one_uplink(Inventory& inventory) {
  for (auto& [host, assigned] : inventory.switches.at("dvs").members) assigned = {{"uplink1", "vmnic0"}};
  inventory.live_hosts.at("esx-01").rdma_devices = {test::rdma_device("vmrdma0", "vmnic0")};
}

TEST(HostPathChoice, FollowsTheInventory) {
  const auto host = [](Inventory& i, const char* name) -> Host& { return i.hosts.at(name); };
  const auto only = [](Inventory& i, const char* name, const char* network) {
    i.hosts.at(name).pvrdma_ruleset.allow_all = false;
    i.hosts.at(name).pvrdma_ruleset.allowed = {*IpNetwork::parse(network)};
  };
  const auto hca = [](Inventory& i, const RdmaDevice& device) {
    i.live_hosts.at("esx-02").rdma_devices = {device};
  };
  const std::string no_hca = "host esx-02 has no active HCA";
  const std::vector<PathCase> cases{
      {[](Inventory& i) { one_uplink(i); }, HostPath::kTcp, no_hca},
      {[](Inventory& i) { i.live_hosts.at("esx-01").rdma_devices.clear(); }, HostPath::kTcp,
       "hosts esx-01 and esx-02 have no active HCA"},
      {[&](Inventory& i) {
         one_uplink(i);
         hca(i, test::rdma_device("vmrdma0", ""));
       },
       HostPath::kTcp, no_hca},
      {[&](Inventory& i) {
         one_uplink(i);
         hca(i, test::rdma_device("vmrdma0", "vmnic0", false));
       },
       HostPath::kTcp, no_hca},
      {[&](Inventory& i) {
         one_uplink(i);
         hca(i, test::rdma_device("vmrdma0", "vmnic0"));
         i.live_hosts.at("esx-01").rdma_devices[0].active = false;
       },
       HostPath::kTcp, "host esx-01 has no active HCA"},
      {[&](Inventory& i) {
         one_uplink(i);
         hca(i, test::rdma_device("vmrdma0", "vmnic0"));
         i.live_hosts.at("esx-02").rdma_devices[0].iwarp = true;
       },
       HostPath::kTcp, "vmrdma0 of host esx-02 is iWARP"},
      {[&](Inventory& i) {
         one_uplink(i);
         hca(i, test::rdma_device("vmrdma0", "vmnic0"));
         i.live_hosts.at("esx-02").rdma_devices[0].roce_v2 = false;
       },
       HostPath::kTcp, "vmrdma0 of host esx-02 is without RoCE v2"},
      {[&](Inventory& i) {
         one_uplink(i);
         hca(i, test::rdma_device("vmrdma0", "vmnic1"));
       },
       HostPath::kTcp,
       "vmrdma0 of host esx-02 is paired with vmnic1, which is not the only uplink of a switch"},
      {[](Inventory& i) { i.hosts.erase("esx-02"); }, HostPath::kNone,
       "esx-02 is not a host of this cluster"},
      {[](Inventory& i) { i.live_hosts.erase("esx-02"); }, HostPath::kNone, "esx-02 is not alive"},
      {[](Inventory& i) { i.live_hosts.erase("esx-01"); }, HostPath::kNone, "esx-01 is not alive"},
      {[&](Inventory& i) { host(i, "esx-02").pvrdma_vmknic.clear(); }, HostPath::kNone,
       "esx-02 has no tagged vmknic: pvrdmactl system settings advanced set -o /Net/PVRDMAVmknic -s vmkN "
       "-H esx-02"},
      {[&](Inventory& i) { host(i, "esx-01").vmks.clear(); }, HostPath::kNone,
       "esx-01 has no tagged vmknic: pvrdmactl system settings advanced set -o /Net/PVRDMAVmknic -s vmkN "
       "-H esx-01"},
      {[&](Inventory& i) { host(i, "esx-02").pvrdma_ruleset.enabled = false; }, HostPath::kNone,
       "the firewall ruleset pvrdma is disabled on esx-02: pvrdmactl network firewall ruleset set -r pvrdma "
       "-e true -H esx-02"},
      {[&](Inventory& i) {
         host(i, "esx-01").pvrdma_ruleset.enabled = false;
         host(i, "esx-01").firewall = false;
       },
       HostPath::kTcp,
       "vmrdma0 of host esx-01 is paired with vmnic0, which is not the only uplink of a switch, host esx-02 "
       "has no "
       "active HCA"},
      {[&](Inventory& i) { host(i, "esx-01").pvrdma_ruleset.enabled = false; }, HostPath::kNone,
       "the firewall ruleset pvrdma is disabled on esx-01: pvrdmactl network firewall ruleset set -r pvrdma "
       "-e true -H esx-01"},
      {[&](Inventory& i) { only(i, "esx-01", "10.0.1.0/24"); }, HostPath::kNone,
       "the ruleset on esx-01 does not admit 10.0.0.2 (host esx-02)"},
      {[&](Inventory& i) { only(i, "esx-02", "10.0.0.2"); }, HostPath::kNone,
       "the ruleset on esx-02 does not admit 10.0.0.1 (host esx-01)"},
      {[&](Inventory& i) {
         one_uplink(i);
         only(i, "esx-01", "10.0.0.0/24");
       },
       HostPath::kTcp, no_hca},
      {[&](Inventory& i) { host(i, "esx-02").vmks.at("vmk2") = *IpAddress::parse("fd00::2"); },
       HostPath::kNone,
       "the tagged vmknics are of different families: esx-01 has 10.0.0.1 and esx-02 has fd00::2"},
  };
  for (const PathCase& each : cases) {
    Inventory inventory = some_cluster();
    each.spoil(inventory);
    const HostPathChoice choice = choose_path(inventory, "esx-01", "esx-02");
    EXPECT_EQ(choice.kind, each.kind) << each.reason;
    EXPECT_EQ(choice.reason, each.reason);
    EXPECT_FALSE(choice.hca.has_value()) << each.reason;
    EXPECT_EQ(choose_path(inventory, "esx-02", "esx-01").kind, each.kind) << "both sides decide alike";
  }
  const HostPathChoice local = choose_path({}, "esx-01", "esx-01");
  EXPECT_EQ(local.kind, HostPath::kLocal) << "needs neither vmknic nor ruleset nor a store";
  EXPECT_THAT(local.reason, HasSubstr("esx-01"));
}

TEST(HostPathChoice, TakesTheHcasThatAreTheOnlyUplinksOfOneSwitch) {
  Inventory inventory = some_cluster();
  one_uplink(inventory);
  inventory.live_hosts.at("esx-02").rdma_devices = {test::rdma_device("vmrdma0", "vmnic1", false),
                                                    test::rdma_device("vmrdma1", "vmnic0")};
  inventory.live_hosts.at("esx-01").rdma_devices[0].device = "mlx5_7";
  const HostPathChoice choice = choose_path(inventory, "esx-01", "esx-02");
  EXPECT_EQ(choice.kind, HostPath::kTcp) << "which carries what hca cannot";
  EXPECT_EQ(choice.reason, "vmrdma0 of host esx-01 and vmrdma1 of host esx-02");
  ASSERT_TRUE(choice.hca.has_value());
  EXPECT_EQ(choice.hca->device, "mlx5_7");
  EXPECT_EQ(choice.hca->switches, (std::vector{inventory.switches.at("dvs").id}));

  // Each device is the only uplink of its own switch.
  Dvs other = inventory.switches.at("dvs");
  other.name = "other";
  other.id += 1;
  other.members = {{"esx-02", {{"uplink1", "vmnic0"}}}};
  inventory.switches.at("dvs").members.at("esx-02") = {{"uplink1", "vmnic1"}};
  inventory.switches.emplace("other", other);
  const HostPathChoice apart = choose_path(inventory, "esx-01", "esx-02");
  EXPECT_FALSE(apart.hca.has_value());
  EXPECT_EQ(apart.reason,
            "vmrdma0 of host esx-01 and vmrdma1 of host esx-02 are not uplinks of the same switch");
}

TEST(Segments, AreASwitchAndAVlan) {
  Inventory inventory = some_cluster();
  const Vm vm = inventory.vms.at("vm-a");
  EXPECT_EQ(segment_of(inventory, vm), (SegmentKey{inventory.switches.at("dvs").id, 5}));
  EXPECT_EQ(segment_of(inventory, inventory.vms.at("vm-b")), std::nullopt);
  inventory.switches.at("dvs").portgroups.clear();
  EXPECT_EQ(segment_of(inventory, vm), std::nullopt);
  inventory.switches.clear();
  EXPECT_EQ(segment_of(inventory, vm), std::nullopt);
}

}  // namespace
}  // namespace pvrdma::control
