
#include "control/model/model_fixture.h"
#include "control/model/values.h"

namespace pvrdma::control {
namespace {

using test::after;
using test::expect_refused;
using test::some_cluster;

test::EditFunction uplink(const std::string& host, const std::string& slot, const std::string& vmnic,
                          const std::string& dvs = "dvs") {
  return [=](Inventory& i) { return edits::set_uplink(i, dvs, host, slot, vmnic); };
}

TEST(SwitchEdits, CreatesSwitchesWithIdsThatAreNeverUsedAgain) {
  Inventory inventory;
  test::must(edits::create_dvs(inventory, {"one", "6.5.0", 2}));
  test::must(edits::create_dvs(inventory, {"two", "8.0.3", 32}));
  EXPECT_EQ(inventory.switches.at("one").uplinks, (std::vector<std::string>{"uplink1", "uplink2"}));
  EXPECT_EQ(inventory.switches.at("two").uplinks.back(), "uplink32");
  const std::uint32_t id = inventory.switches.at("two").id;
  EXPECT_GT(id, inventory.switches.at("one").id);
  test::must(edits::delete_dvs(inventory, "two"));
  test::must(edits::create_dvs(inventory, {"two", "8.0.3", 1}));
  EXPECT_GT(inventory.switches.at("two").id, id);

  inventory.next_dvs_id = 1;  // as if the guard record were lost
  test::must(edits::create_dvs(inventory, {"three", "8.0.3", 1}));
  EXPECT_NE(inventory.switches.at("three").id, inventory.switches.at("one").id);
  EXPECT_NE(inventory.switches.at("three").id, inventory.switches.at("two").id);

  inventory.next_dvs_id = UINT32_MAX;
  test::must(edits::create_dvs(inventory, {"four", "8.0.3", 1}));
  EXPECT_EQ(inventory.switches.at("four").id, UINT32_MAX);
  EXPECT_EQ(inventory.next_dvs_id, 1U) << "0 would be refused when it is read";
}

TEST(SwitchEdits, RefusesSwitchesThatAreNone) {
  const Inventory cluster = some_cluster();
  const auto create = [](const edits::NewDvs& spec) {
    return [=](Inventory& i) { return edits::create_dvs(i, spec); };
  };
  expect_refused(cluster, create({"", "8.0.0", 2}), ErrorKind::kInvalid, {"distributed switch", "1 to 64"});
  expect_refused(cluster, create({"dvs", "8.0.0", 2}), ErrorKind::kConflict, {"dvs", "already"});
  for (const char* version : {"", "8", "8.0", "8.0.0.1", "8..0", "8.0.x", "08.0.0", "8.0.100", " 8.0.0"}) {
    expect_refused(cluster, create({"new", version, 2}), ErrorKind::kInvalid, {"new", "6.5.0 or 8.0.3"});
  }
  expect_refused(cluster, create({"new", "8.0.0", 0}), ErrorKind::kInvalid, {"new", "1 to 32"});
  expect_refused(cluster, create({"new", "8.0.0", 33}), ErrorKind::kInvalid, {"33", "new", "1 to 32"});
  EXPECT_LT(*parse_dvs_version("6.5.0"), *parse_dvs_version("6.10.0")) << "versions are no decimals";
}

TEST(SwitchEdits, DeletesASwitchThatNobodyUses) {
  Inventory cluster = some_cluster();
  const auto remove = [](Inventory& i) { return edits::delete_dvs(i, "dvs"); };
  expect_refused(cluster, [](Inventory& i) { return edits::delete_dvs(i, "x"); }, ErrorKind::kNotFound,
                 {"\"x\"", "pvrdmactl dvs list"});
  expect_refused(cluster, remove, ErrorKind::kConflict, {"vm-a", "dvs"});
  test::must(edits::remove_adapter(cluster, "vm-a"));
  expect_refused(cluster, remove, ErrorKind::kConflict, {"esx-01", "dvs", "remove-host"});
  test::must(edits::remove_dvs_host(cluster, "dvs", "esx-01"));
  test::must(edits::remove_dvs_host(cluster, "dvs", "esx-02"));
  EXPECT_TRUE(after(cluster, remove).switches.empty());
}

TEST(SwitchEdits, HostsJoinAndLeave) {
  Inventory cluster = some_cluster();
  const auto join = [](const char* host) {
    return [=](Inventory& i) { return edits::add_dvs_host(i, "dvs", host); };
  };
  const auto leave = [](const char* host) {
    return [=](Inventory& i) { return edits::remove_dvs_host(i, "dvs", host); };
  };
  EXPECT_TRUE(after(cluster, join("esx-03")).switches.at("dvs").members.contains("esx-03"));
  expect_refused(cluster, join("esx-09"), ErrorKind::kNotFound, {"esx-09"});
  expect_refused(cluster, join("esx-01"), ErrorKind::kConflict, {"esx-01", "dvs", "already"});
  expect_refused(cluster, leave("esx-03"), ErrorKind::kNotFound, {"esx-03", "dvs", "add-host"});
  EXPECT_FALSE(after(cluster, leave("esx-01")).switches.at("dvs").members.contains("esx-01"))
      << "vm-a is off";

  cluster.powered_on["vm-a"] = "esx-01";
  expect_refused(cluster, leave("esx-01"), ErrorKind::kConflict, {"vm-a", "esx-01", "dvs", "power it off"});
  EXPECT_FALSE(after(cluster, leave("esx-02")).switches.at("dvs").members.contains("esx-02"));
}

TEST(SwitchEdits, AssignsAndFreesUplinks) {
  const Inventory cluster = some_cluster();
  const auto assigned = [](const Inventory& i, const char* host) {
    return i.switches.at("dvs").members.at(host);
  };
  const Inventory two =
      after(after(cluster, uplink("esx-02", "uplink1", "vmnic1")), uplink("esx-02", "uplink2", "vmnic2"));
  EXPECT_EQ(assigned(two, "esx-02"), (Dvs::Assigned{{"uplink1", "vmnic1"}, {"uplink2", "vmnic2"}}))
      << "teaming is allowed without RDMA";
  EXPECT_TRUE(assigned(two, "esx-01").empty()) << "each host has its own";
  EXPECT_EQ(assigned(after(two, uplink("esx-02", "uplink1", "")), "esx-02"),
            (Dvs::Assigned{{"uplink2", "vmnic2"}}));
  EXPECT_EQ(assigned(after(two, uplink("esx-02", "uplink1", "vmnic0")), "esx-02").at("uplink1"), "vmnic0");
  EXPECT_TRUE(after(two, uplink("esx-02", "uplink1", "vmnic1")) == two);
  EXPECT_TRUE(after(cluster, uplink("esx-02", "uplink1", "")) == cluster);
}

TEST(SwitchEdits, RefusesUplinksThatDoNotExistOrAreTaken) {
  Inventory cluster = some_cluster();
  expect_refused(cluster, uplink("esx-01", "uplink1", "vmnic0", "x"), ErrorKind::kNotFound, {"\"x\""});
  expect_refused(cluster, uplink("esx-03", "uplink1", "vmnic0"), ErrorKind::kNotFound,
                 {"esx-03", "not a member", "add-host"});
  expect_refused(cluster, uplink("esx-01", "uplink3", "vmnic0"), ErrorKind::kNotFound,
                 {"uplink3", "uplink1, uplink2"});
  expect_refused(cluster, uplink("esx-01", "uplink1", "vmnic9"), ErrorKind::kNotFound,
                 {"esx-01", "vmnic9", "vmnic0, vmnic1, vmnic2"});
  test::must(edits::create_dvs(cluster, {"other", "8.0.0", 2}));
  test::must(edits::add_dvs_host(cluster, "other", "esx-01"));
  test::must(uplink("esx-01", "uplink1", "vmnic1")(cluster));
  expect_refused(cluster, uplink("esx-01", "uplink1", "vmnic1", "other"), ErrorKind::kConflict,
                 {"vmnic1", "esx-01", "uplink1", "switch dvs", "free it"});
  expect_refused(cluster, uplink("esx-01", "uplink2", "vmnic1"), ErrorKind::kConflict, {"vmnic1", "uplink1"});
  cluster.live_hosts.erase("esx-01");
  expect_refused(cluster, uplink("esx-01", "uplink1", "vmnic2"), ErrorKind::kNotFound,
                 {"esx-01", "not alive", "vmnic2"});
  EXPECT_TRUE(after(cluster, uplink("esx-01", "uplink1", "")).switches.at("dvs").members.at("esx-01").empty())
      << "a dead host's slot can be freed";
}

TEST(SwitchEdits, AnUplinkWithAnRdmaDeviceIsAlone) {
  const Inventory cluster = some_cluster();
  const Inventory paired = after(cluster, uplink("esx-01", "uplink1", "vmnic0"));
  expect_refused(paired, uplink("esx-01", "uplink2", "vmnic1"), ErrorKind::kConflict,
                 {"vmnic0", "esx-01", "vmrdma0", "only uplink", "dvs", "no teaming"});
  const Inventory plain = after(cluster, uplink("esx-01", "uplink2", "vmnic1"));
  expect_refused(plain, uplink("esx-01", "uplink1", "vmnic0"), ErrorKind::kConflict,
                 {"vmnic0", "vmrdma0", "no teaming"});
  EXPECT_EQ(
      after(plain, uplink("esx-01", "uplink2", "vmnic0")).switches.at("dvs").members.at("esx-01").size(), 1u)
      << "it takes the place of the only one";

  Inventory late = after(plain, uplink("esx-01", "uplink1", "vmnic2"));  // the RDMA driver is loaded later
  late.live_hosts.at("esx-01").rdma_devices[0].paired_uplink = "vmnic2";
  EXPECT_EQ(after(late, uplink("esx-01", "uplink2", "")).switches.at("dvs").members.at("esx-01").size(), 1u)
      << "the way out is open";
}

TEST(SwitchEdits, UplinksWithAnRdmaDeviceStayWhileVmsUseThem) {
  Inventory on = some_cluster();
  on.powered_on["vm-a"] = "esx-01";
  const std::vector<std::string> essentials{"vmnic0", "esx-01", "vmrdma0", "vm-a", "powered on", "dvs"};
  expect_refused(on, uplink("esx-01", "uplink1", "vmnic0"), ErrorKind::kConflict, essentials);
  Inventory running = after(some_cluster(), uplink("esx-01", "uplink1", "vmnic0"));
  running.powered_on["vm-a"] = "esx-01";
  expect_refused(running, uplink("esx-01", "uplink1", ""), ErrorKind::kConflict, essentials);
  expect_refused(running, uplink("esx-01", "uplink1", "vmnic1"), ErrorKind::kConflict, essentials);

  after(on, uplink("esx-01", "uplink1", "vmnic1"));  // no RDMA device
  after(on, uplink("esx-02", "uplink1", "vmnic0"));  // another host
  running.powered_on = {{"vm-b", "esx-01"}};         // no adapter
  after(running, uplink("esx-01", "uplink1", ""));
}

TEST(SwitchEdits, KeepsPortGroups) {
  Inventory cluster = some_cluster();
  const auto add = [](const std::string& name, std::uint16_t vlan) {
    return [=](Inventory& i) { return edits::add_portgroup(i, "dvs", name, {.vlan = vlan}); };
  };
  const auto remove = [](const char* name) {
    return [=](Inventory& i) { return edits::remove_portgroup(i, "dvs", name); };
  };
  EXPECT_EQ(after(cluster, add("new", 4094)).switches.at("dvs").portgroups.at("new").vlan, 4094);
  EXPECT_FALSE(
      after(after(cluster, add("new", 0)), remove("new")).switches.at("dvs").portgroups.contains("new"));
  expect_refused(cluster, [](Inventory& i) { return edits::add_portgroup(i, "x", "new", {.vlan = 0}); },
                 ErrorKind::kNotFound, {"\"x\""});
  expect_refused(cluster, add("a b", 0), ErrorKind::kInvalid, {"a b", "port group"});
  expect_refused(cluster, add("new", 4095), ErrorKind::kInvalid, {"4095", "new", "4094"});
  expect_refused(cluster, add("pg", 5), ErrorKind::kConflict, {"pg", "dvs", "VLAN 5"});
  expect_refused(cluster, remove("new"), ErrorKind::kNotFound, {"\"new\"", "dvs", "it has pg"});
  expect_refused(cluster, remove("pg"), ErrorKind::kConflict, {"vm-a", "pg", "dvs"});
  EXPECT_EQ(cluster.switches.at("dvs").portgroups.at("pg").mtu, 1500);
  const auto with_mtu = [](NetworkMtu mtu) {
    return [=](Inventory& i) { return edits::add_portgroup(i, "dvs", "new", {.mtu = mtu}); };
  };
  const auto set_mtu = [](const char* name, NetworkMtu mtu) {
    return [=](Inventory& i) { return edits::change_portgroup(i, "dvs", name, {.mtu = mtu}); };
  };
  EXPECT_EQ(after(cluster, with_mtu(9000)).switches.at("dvs").portgroups.at("new").mtu, 9000);
  const PortGroup changed = after(cluster, set_mtu("pg", 1280)).switches.at("dvs").portgroups.at("pg");
  EXPECT_EQ(changed, (PortGroup{.vlan = 5, .mtu = 1280}));
  expect_refused(cluster, with_mtu(1279), ErrorKind::kInvalid, {"1279", "new", "1280 to 9000"});
  expect_refused(cluster, set_mtu("pg", 9001), ErrorKind::kInvalid, {"9001", "pg", "1280 to 9000"});
  expect_refused(cluster, set_mtu("new", 9000), ErrorKind::kNotFound, {"\"new\"", "dvs", "it has pg"});
  for (int i = 1; i < 1024; ++i) test::must(add("pg" + std::to_string(i), 0)(cluster));
  expect_refused(cluster, add("one-more", 0), ErrorKind::kInvalid, {"dvs", "1024", "limit", "one-more"});
}

TEST(SwitchEdits, PortGroupsOfAVlanHaveTheSameNativeEndpoints) {
  const Inventory cluster = some_cluster();  // pg has VLAN 5
  const std::vector<IpNetwork> peers{*IpNetwork::parse("192.168.0.0/16")};
  const auto add = [](const std::string& name, const PortGroup& portgroup) {
    return [=](Inventory& i) { return edits::add_portgroup(i, "dvs", name, portgroup); };
  };
  const auto change = [](const std::string& name, const edits::PortGroupChange& what) {
    return [=](Inventory& i) { return edits::change_portgroup(i, "dvs", name, what); };
  };
  const auto group = [](const Inventory& i, const char* name) {
    return i.switches.at("dvs").portgroups.at(name);
  };
  EXPECT_FALSE(group(cluster, "pg").native_endpoints);
  EXPECT_EQ(group(after(cluster, add("far", {.native_endpoints = true, .native_peers = peers})), "far"),
            (PortGroup{.vlan = 0, .native_endpoints = true, .native_peers = peers}));

  const Inventory two = after(cluster, add("beside", {.vlan = 5, .mtu = 9000}));
  const Inventory three = after(two, add("far", {.vlan = 6}));
  const Inventory on = after(three, change("beside", {.native_endpoints = true, .native_peers = peers}));
  EXPECT_EQ(group(on, "beside"),
            (PortGroup{.vlan = 5, .mtu = 9000, .native_endpoints = true, .native_peers = peers}));
  EXPECT_EQ(group(on, "pg"), (PortGroup{.vlan = 5, .native_endpoints = true, .native_peers = peers}));
  EXPECT_EQ(group(on, "far"), PortGroup{.vlan = 6});
  EXPECT_TRUE(after(on, change("pg", {})) == on);
  EXPECT_EQ(group(after(on, change("pg", {.native_peers = {std::vector<IpNetwork>{}}})), "beside"),
            (PortGroup{.vlan = 5, .mtu = 9000, .native_endpoints = true}));
  EXPECT_EQ(group(after(on, change("pg", {.native_endpoints = false})), "beside"),
            (PortGroup{.vlan = 5, .mtu = 9000, .native_peers = peers}));

  EXPECT_EQ(group(after(on, add("late", {.vlan = 5})), "late"), group(on, "pg"));
  EXPECT_EQ(group(after(on, add("late", group(on, "pg"))), "late"), group(on, "pg"));
  expect_refused(on, add("late", {.vlan = 5, .native_endpoints = true}), ErrorKind::kInvalid,
                 {"late", "beside", "VLAN 5", "add it without"});
  expect_refused(cluster, add("late", {.vlan = 5, .native_endpoints = true}), ErrorKind::kInvalid,
                 {"late", "pg"});
  const std::vector<IpNetwork> many(65, peers[0]);
  expect_refused(cluster, change("pg", {.native_peers = many}), ErrorKind::kInvalid, {"pg", "65", "64"});
  expect_refused(cluster, add("late", {.native_peers = many}), ErrorKind::kInvalid, {"late", "65", "64"});
  after(cluster, change("pg", {.native_peers = std::vector(64, peers[0])}));
}

}  // namespace
}  // namespace pvrdma::control
