#include "control/model/records.h"

#include <fmt/core.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "control/model/model_fixture.h"
#include "control/model/rules.h"
#include "control/model/views.h"

namespace pvrdma::control {
namespace {

using test::some_cluster;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kGid = "fe800000000000005054000000000001";

// some_cluster() with no field at its default value.
Inventory full_cluster() {
  Inventory inventory = some_cluster();
  Ruleset& ruleset = inventory.hosts.at("esx-01").pvrdma_ruleset;
  ruleset.allow_all = false;
  ruleset.allowed = {*IpNetwork::parse("10.0.0.0/24"), *IpNetwork::parse("fd00::1")};
  inventory.hosts.at("esx-03").vmks["vmk0"] = *IpAddress::parse("fd00::3");
  inventory.switches.at("dvs").members.at("esx-01")["uplink1"] = "vmnic0";
  PortGroup& portgroup = inventory.switches.at("dvs").portgroups.at("pg");
  portgroup.native_endpoints = true;
  portgroup.native_peers = {*IpNetwork::parse("192.168.0.0/16")};
  VmAdapter& adapter = *inventory.vms.at("vm-a").adapter;
  adapter.profile = Profile::kEsxi;
  adapter.doorbells = DoorbellMode::kMapped;
  adapter.addresses = {IpAddress::parse("10.0.0.5").value()};
  inventory.vms.at("vm-a").arrived_by = "m1";
  adapter.owner = "vm-a";
  adapter.group = "kvm";
  test::must(
      edits::add_adapter(inventory, "vm-b", {std::nullopt, "dvs", "pg", RoceVersion::kV1, Profile::kOpen}));
  Vmnic nic{"vmnic9",    "eth9", "0000:02:00.0", "ice",  "52:54:00:00:00:09",
            "A \"NIC\"", true,   9000,           100000, false};
  RdmaDevice device{"vmrdma1", "mlx5_1", "mlx5_core", true, 4096, 100000, "vmnic9", "B", true, true, true};
  inventory.live_hosts.at("esx-02").vmnics.push_back(nic);
  inventory.live_hosts.at("esx-02").rdma_devices.push_back(device);
  inventory.powered_on = {{"vm-a", "esx-01"}};
  inventory.gids[{{1, 4094}, kGid}] = {"vm-a", "esx-01"};
  return inventory;
}

std::vector<Change> all_records(const Inventory& inventory) {
  std::vector<Change> records = difference({}, inventory);
  for (const auto& [name, live] : inventory.live_hosts) {
    records.push_back({live_host_key(name), live_host_value(live), true});
  }
  for (const auto& [vm, host] : inventory.powered_on) records.push_back({power_key(vm), host, true});
  for (const auto& [key, holder] : inventory.gids) records.push_back({gid_key(key), gid_value(holder), true});
  return records;
}

std::string text_of_record(const Inventory& inventory, const std::string& key) {
  for (const Change& record : all_records(inventory)) {
    if (record.key == key) return record.value.value();
  }
  return {};
}

TEST(Records, AreTheWholeInventory) {
  const Inventory cluster = full_cluster();
  Inventory read;
  for (const Change& record : all_records(cluster)) test::must(apply(read, record));
  EXPECT_TRUE(read == cluster);
  EXPECT_TRUE(all_records(read) == all_records(cluster));
  for (Change record : all_records(cluster)) {
    record.value.reset();
    test::must(apply(read, record));
  }
  EXPECT_TRUE(read == Inventory{}) << "and deleting all of them leaves nothing";
}

TEST(Records, HaveTheKeysThatAreDocumented) {
  std::vector<std::string> keys;
  for (const Change& record : all_records(full_cluster())) keys.push_back(record.key);
  EXPECT_THAT(keys,
              ElementsAre("config", "config/dvs/dvs", "config/host/esx-01", "config/host/esx-02",
                          "config/host/esx-03", "config/vm/vm-a", "config/vm/vm-b", "live/host/esx-01",
                          "live/host/esx-02", "live/power/vm-a", std::string("live/gid/1.4094/") + kGid));
  const Json guard = Json::parse(text_of_record(some_cluster(), "config"));
  EXPECT_EQ(guard, (Json{{"revision", 7}, {"next_dvs_id", 2}, {"cluster_id", 0}}));
}

// The exact bytes of the store's format, which other versions of the daemon read.
TEST(Records, HaveTheTextsThatOtherVersionsWrote) {
  const std::map<std::string, std::string> expected{
      {"config", R"({"revision":7,"next_dvs_id":2,"cluster_id":0})"},
      {"config/host/esx-01",
       R"({"vmks":{"vmk2":"10.0.0.1"},"pvrdma_vmknic":"vmk2","ruleset":{"enabled":true,"allow_all":false,)"
       R"("allowed":["10.0.0.0/24","fd00::1"]},"firewall":true})"},
      {"config/dvs/dvs",
       R"({"id":1,"version":"8.0.0","uplinks":["uplink1","uplink2"],"portgroups":{)"
       R"("pg":{"vlan":5,"mtu":1500,"native_endpoints":true,"native_peers":["192.168.0.0/16"]}},)"
       R"("members":{"esx-01":{"uplink1":"vmnic0"},"esx-02":{}}})"},
      {"config/vm/vm-a",
       R"({"host":"esx-01","hardware_version":14,"memory_mib":1024,"memory_reserved_mib":1024,)"
       R"("motion":null,"arrived_by":"m1","adapter":{"mac":"52:54:00:00:00:0a","dvs":"dvs","portgroup":"pg","protocol":"v2",)"
       R"("profile":"esxi","doorbells":"mapped","addresses":["10.0.0.5"],"owner":"vm-a","group":"kvm"}})"},
      {"live/host/esx-02", R"({"instance":"i","version":"0.1.0","socket_folder":"/run/pvrdma","vmnics":[)"
                           R"({"name":"vmnic9","netdev":"eth9","pci_address":"0000:02:00.0","driver":"ice",)"
                           R"("mac":"52:54:00:00:00:09","description":"A \"NIC\"","link_up":true,"mtu":9000,)"
                           R"("speed_mbps":100000,"full_duplex":false}],"rdma_devices":[)"
                           R"({"name":"vmrdma1","device":"mlx5_1","driver":"mlx5_core","active":true,)"
                           R"("mtu":4096,"speed_mbps":100000,"paired_uplink":"vmnic9","description":"B",)"
                           R"("roce_v1":true,"roce_v2":true,"iwarp":true}]})"},
      {std::string("live/gid/1.4094/") + kGid, R"({"port":"vm-a","host":"esx-01"})"}};
  Inventory cluster = full_cluster();
  LiveHost& live = cluster.live_hosts.at("esx-02");
  live.instance = "i";
  live.vmnics.erase(live.vmnics.begin(), live.vmnics.end() - 1);
  std::map<std::string, std::string> written;
  for (const Change& record : all_records(cluster)) written.emplace(record.key, *record.value);
  for (const auto& [key, text] : expected) EXPECT_EQ(written[key], text) << key;
  cluster.vms.at("vm-a").adapter.reset();
  EXPECT_THAT(text_of_record(cluster, "config/vm/vm-a"), HasSubstr(R"("adapter":null})"));
}

TEST(Records, DifferenceIsWhatHasToBeWritten) {
  const Inventory before = some_cluster();
  EXPECT_TRUE(difference(before, before).empty());
  Inventory after = before;
  ++after.revision;
  after.hosts.erase("esx-03");
  after.vms.erase("vm-a");
  after.vms.at("vm-b").memory_mib = 4096;
  after.switches.emplace("other", after.switches.at("dvs"));
  after.live_hosts.clear();
  const auto record = [&after](const std::string& key) { return Change{key, text_of_record(after, key)}; };
  EXPECT_THAT(difference(before, after),
              ElementsAre(Change{"config/host/esx-03", std::nullopt}, Change{"config/vm/vm-a", std::nullopt},
                          record("config"), record("config/dvs/other"), record("config/vm/vm-b")));
}

TEST(Records, OtherVersionsMayHaveMoreOrFewerMembers) {
  Inventory inventory;
  test::must(apply(inventory, {"config/host/h", R"({"colour": [1, {"deep": null}]})"}));
  EXPECT_TRUE(inventory.hosts.at("h") == (Host{"h", {}, {}, {}}));
  test::must(apply(inventory, {"config/dvs/d", R"({"id": 3, "version": "8.0.0", "portgroups": {"p": {}}})"}));
  EXPECT_EQ(inventory.switches.at("d").portgroups.at("p"), PortGroup{}) << "which they were before";
  test::must(apply(inventory, {"config/vm/v", R"({"host": "h", "adapter": null})"}));
  EXPECT_FALSE(inventory.vms.at("v").adapter);
  test::must(apply(
      inventory,
      {"config/vm/v",
       R"({"host": "h", "adapter": {"mac": "52:54:00:00:00:0a", "dvs": "d", "portgroup": "p", "profile": "esxi"}})"}));
  EXPECT_EQ(inventory.vms.at("v").adapter->doorbells, DoorbellMode::kTrapped) << "which it was before";
  test::must(apply(inventory, {"live/host/h", R"({"vmnics": [{"name": "vmnic0"}], "rdma_devices": null})"}));
  EXPECT_TRUE(inventory.live_hosts.at("h").vmnics.at(0).full_duplex);
  test::must(apply(inventory, {"config", R"({"revision": 18446744073709551615})"}));
  EXPECT_EQ(inventory.revision, std::numeric_limits<std::uint64_t>::max());
}

struct BadRecord {
  const char* key;
  std::string value;
  const char* essential;
};

TEST(Records, WhatIsMalformedIsAnErrorAndChangesNothing) {
  const std::string gid_key_text = std::string("live/gid/1.5/") + kGid;
  const std::vector<BadRecord> cases{
      {"config", "", "not valid JSON"},
      {"config", "[]", "not a JSON object"},
      {"config", R"({"revision": -1})", "revision"},
      {"config", R"({"revision": 1.5})", "revision"},
      {"config", R"({"next_dvs_id": 0})", "next_dvs_id"},
      {"config", R"({"next_dvs_id": 4294967296})", "next_dvs_id"},
      {"config/host/esx-01", "{\"vmks\": {}", "not valid JSON"},
      {"config/host/esx-01", "\xff", "not valid JSON"},
      {"config/host/esx-01", std::string(100000, '['), "not valid JSON"},
      {"config/host/esx-01", std::string((2u << 20) + 1, ' '), "limit"},
      {"config/host/esx-01", R"({"vmks": []})", "vmks"},
      {"config/host/esx-01", R"({"vmks": {"vmk0": 5}})", "vmks"},
      {"config/host/esx-01", R"({"vmks": {"eth0": "10.0.0.1"}})", "vmks"},
      {"config/host/esx-01", R"({"pvrdma_vmknic": "eth0"})", "pvrdma_vmknic"},
      {"config/host/esx-01", R"({"ruleset": true})", "ruleset"},
      {"config/host/esx-01", R"({"ruleset": {"enabled": 1}})", "enabled"},
      {"config/host/esx-01", R"({"ruleset": {"allowed": "10.0.0.1"}})", "allowed"},
      {"config/host/esx-01", R"({"ruleset": {"allowed": ["10.0.0.1/40"]}})", "allowed"},
      {"config/host/", "{}", "key"},
      {"config/host/a/b", "{}", "key"},
      {"config/dvs/dvs", R"({"version": "8.0.0"})", "id"},
      {"config/dvs/dvs", R"({"id": 1})", "version"},
      {"config/dvs/dvs", R"({"id": 1, "version": "8.0.0", "uplinks": [""]})", "uplinks"},
      {"config/dvs/dvs", R"({"id": 1, "version": "8.0.0", "portgroups": {"p": {"vlan": 4095}}})", "vlan"},
      {"config/dvs/dvs", R"({"id": 1, "version": "8.0.0", "portgroups": {"": {}}})", "portgroups"},
      {"config/dvs/dvs", R"({"id": 1, "version": "8.0.0", "portgroups": {"p": {"native_peers": ["x"]}}})",
       "native_peers.0"},
      {"config/dvs/dvs", R"({"id": 1, "version": "8.0.0", "members": {"h": []}})", "members"},
      {"config/dvs/dvs", R"({"id": 1, "version": "8.0.0", "members": {"h": {"uplink1": ""}}})", "members"},
      {"config/vm/vm-a", "{}", "host"},
      {"config/vm/vm-a", R"({"host": "h", "memory_mib": "1"})", "memory_mib"},
      {"config/vm/vm-a", R"({"host": "h", "adapter": {"dvs": "d", "portgroup": "p"}})", "mac"},
      {"config/vm/vm-a", R"({"host": "h", "adapter": {"mac": "01:00:00:00:00:00"}})", "mac"},
      {"config/vm/vm-a", R"({"host": "h", "adapter": {"mac": "02:00:00:00:00:01", "portgroup": "p"}})",
       "dvs"},
      {"config/vm/vm-a",
       R"({"host": "h", "adapter": {"mac": "02:00:00:00:00:01", "dvs": "d", "portgroup": "p", "protocol": "v3"}})",
       "protocol"},
      {"config/other/x", "{}", "kind of its key is unknown"},
      {"live/host/esx-01", R"({"vmnics": [{}]})", "name"},
      {"live/host/esx-01", R"({"rdma_devices": [{"name": "vmrdma0", "mtu": -5}]})", "mtu"},
      {"live/power/vm-a", "a b", "host"},
      {"live/power/", "esx-01", "key"},
      {gid_key_text.c_str(), R"({"port": "vm-a"})", "host"},
      {"live/gid/1.5/FE800000000000005054000000000001", "{}", "DVS.VLAN/GID"},
      {"live/gid/0.5/fe800000000000005054000000000001", "{}", "DVS.VLAN/GID"},
      {"live/gid/1.4095/fe800000000000005054000000000001", "{}", "DVS.VLAN/GID"},
      {"live/gid/01.5/fe800000000000005054000000000001", "{}", "DVS.VLAN/GID"},
      {"live/gid/1/5.fe8000000000000050540000000000", "{}", "DVS.VLAN/GID"},
      {"live/gid/", "{}", "DVS.VLAN/GID"},
      {"", "{}", "kind of its key is unknown"},
  };
  const Inventory before = full_cluster();
  for (const BadRecord& each : cases) {
    SCOPED_TRACE(std::string(each.key) + " = " + each.value.substr(0, 100));
    Inventory inventory = before;
    const auto result = apply(inventory, {each.key, each.value});
    ASSERT_FALSE(result);
    test::expect_sentence(result.error(), ErrorKind::kInternal,
                          {each.key, each.essential, "upgrade pvrdmad"});
    EXPECT_TRUE(inventory == before);
  }
}

TEST(Records, TextThatIsNoUtf8IsMended) {
  LiveHost live = test::live_host("h");
  live.vmnics.at(0).description = "NIC \xff";
  Inventory inventory;
  test::must(apply(inventory, {live_host_key("h"), live_host_value(live)}));
  EXPECT_EQ(inventory.live_hosts.at("h").vmnics.at(0).description, "NIC \xef\xbf\xbd");
}

template <typename View>
Json shown(const View& view) {
  return Json::parse(schema::text_of(view));
}

TEST(Views, ShowAHost) {
  const Inventory cluster = full_cluster();
  const Json host = shown(view_of(cluster, cluster.hosts.at("esx-02"), true));
  EXPECT_EQ(host["name"], "esx-02");
  EXPECT_EQ(host["self"], true);
  EXPECT_EQ(host["alive"], true);
  EXPECT_EQ(host["version"], "0.1.0");
  EXPECT_EQ(host["socket_folder"], "/run/pvrdma");
  EXPECT_EQ(host["vmks"], (Json::array({{{"name", "vmk2"}, {"address", "10.0.0.2"}, {"tagged", true}}})));
  EXPECT_EQ(host["pvrdma_vmknic"], "vmk2");
  EXPECT_EQ(host["ruleset"],
            (Json{{"name", "pvrdma"}, {"enabled", true}, {"allow_all", true}, {"allowed", Json::array()}}));
  EXPECT_EQ(host["vmnics"].back(), (Json{{"name", "vmnic9"},
                                         {"netdev", "eth9"},
                                         {"pci_address", "0000:02:00.0"},
                                         {"driver", "ice"},
                                         {"mac", "52:54:00:00:00:09"},
                                         {"description", "A \"NIC\""},
                                         {"link_up", true},
                                         {"mtu", 9000},
                                         {"speed_mbps", 100000},
                                         {"full_duplex", false}}));
  EXPECT_EQ(host["rdma_devices"], (Json::array({{{"name", "vmrdma1"},
                                                 {"device", "mlx5_1"},
                                                 {"driver", "mlx5_core"},
                                                 {"active", true},
                                                 {"mtu", 4096},
                                                 {"speed_mbps", 100000},
                                                 {"paired_uplink", "vmnic9"},
                                                 {"description", "B"},
                                                 {"roce_v1", true},
                                                 {"roce_v2", true},
                                                 {"iwarp", true},
                                                 {"vmknic", "vmk2"}}})));
  const Json dead = shown(view_of(cluster, cluster.hosts.at("esx-03"), false));
  EXPECT_EQ(dead["alive"], false);
  EXPECT_EQ(dead["self"], false);
  EXPECT_EQ(dead["vmnics"], Json::array());
  EXPECT_EQ(dead["vmks"][0]["tagged"], false);
}

TEST(Views, ShowASwitchAndAVm) {
  Inventory cluster = full_cluster();
  const Json dvs = shown(view_of(cluster.switches.at("dvs")));
  EXPECT_EQ(dvs, (Json{{"name", "dvs"},
                       {"id", 1},
                       {"version", "8.0.0"},
                       {"uplinks", {"uplink1", "uplink2"}},
                       {"portgroups", Json::array({{{"name", "pg"},
                                                    {"vlan", 5},
                                                    {"mtu", 1500},
                                                    {"native_endpoints", true},
                                                    {"native_peers", {"192.168.0.0/16"}}}})},
                       {"members", Json::array({{{"host", "esx-01"}, {"uplinks", {{"uplink1", "vmnic0"}}}},
                                                {{"host", "esx-02"}, {"uplinks", Json::object()}}})}}));
  const Json vm = shown(view_of(cluster, cluster.vms.at("vm-a"), "its socket is in use"));
  EXPECT_EQ(vm, (Json{{"name", "vm-a"},
                      {"host", "esx-01"},
                      {"hardware_version", 14},
                      {"memory_mib", 1024},
                      {"memory_reserved_mib", 1024},
                      {"motion", nullptr},
                      {"power", "on"},
                      {"adapter",
                       {{"mac", "52:54:00:00:00:0a"},
                        {"dvs", "dvs"},
                        {"portgroup", "pg"},
                        {"protocol", "v2"},
                        {"profile", "esxi"},
                        {"doorbells", "mapped"},
                        {"addresses", {"10.0.0.5"}},
                        {"owner", "vm-a"},
                        {"group", "kvm"},
                        {"socket", "/run/pvrdma/vm-a.sock"}}},
                      {"power_on_refusal", ""},
                      {"not_served", "its socket is in use"}}));
  cluster.live_hosts.clear();
  const Json other = shown(view_of(cluster, cluster.vms.at("vm-b"), ""));
  EXPECT_EQ(other["power"], "off");
  EXPECT_EQ(other["adapter"]["socket"], "");
  EXPECT_EQ(other["not_served"], "");
  EXPECT_EQ(other["power_on_refusal"], check_power_on(cluster, "vm-b").error().message);
  test::must(edits::remove_adapter(cluster, "vm-b"));
  EXPECT_TRUE(shown(view_of(cluster, cluster.vms.at("vm-b"), ""))["adapter"].is_null());
}

// Daemons compare whole records, and an older one writes what it knows.
TEST(Records, WithoutShardsAreThoseOfOlderDaemons) {
  EXPECT_EQ(gid_value({"VM-01", "esx-01", {}}), R"({"port":"VM-01","host":"esx-01"})");
  EXPECT_EQ(gid_value({"VM-01", "esx-01", 3}), R"({"port":"VM-01","host":"esx-01","shard":3})");
  LiveHost live = test::live_host("h");
  EXPECT_EQ(live_host_value(live).find("shards"), std::string::npos);
  for (const std::uint16_t shards : {std::uint16_t{2}, std::uint16_t{17}}) {  // 16 and the ward
    live.shards = shards;
    Inventory inventory;
    test::must(apply(inventory, {live_host_key("h"), live_host_value(live)}));
    EXPECT_EQ(inventory.live_hosts.at("h").shards, shards);
    EXPECT_EQ(inventory.live_hosts.at("h").hca_shards, live.hca_shards);
    live.hca_shards = shards;
  }
}

TEST(Records, RefuseAShardThatNoHostHas) {
  const std::string key = gid_key({{1, 7}, std::string(32, 'a')});
  Inventory with_a_ward;
  test::must(apply(with_a_ward, {key, gid_value({"VM-01", "h", 16})}));
  for (const char* shard : {"0", "17", "-1", R"("1")"}) {
    Inventory inventory;
    const std::string value = fmt::format(R"({{"port":"VM-01","host":"h","shard":{}}})", shard);
    EXPECT_FALSE(apply(inventory, {key, value})) << value;
  }
}

}  // namespace
}  // namespace pvrdma::control
