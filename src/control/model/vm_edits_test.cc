
#include "control/model/model_fixture.h"
#include "control/model/values.h"

namespace pvrdma::control {
namespace {

using edits::NewAdapter;
using edits::VmChange;
using test::after;
using test::EditFunction;
using test::expect_refused;
using test::must;
using test::some_cluster;

EditFunction create(const edits::NewVm& spec) {
  return [=](Inventory& i) { return edits::create_vm(i, spec); };
}
EditFunction add(const std::string& vm, const NewAdapter& spec) {
  return [=](Inventory& i) { return edits::add_adapter(i, vm, spec); };
}
EditFunction change(const std::string& vm, const VmChange& spec) {
  return [=](Inventory& i) { return edits::change_vm(i, vm, spec); };
}
EditFunction upgrade(const std::string& vm, std::uint32_t version) {
  return [=](Inventory& i) { return edits::upgrade_vm(i, vm, version); };
}

NewAdapter adapter(const std::string& portgroup, std::optional<RoceVersion> protocol = std::nullopt) {
  NewAdapter spec;
  spec.portgroup = portgroup;
  spec.protocol = protocol;
  return spec;
}

TEST(VmEdits, AddressesBelongToOneVmOfASegment) {
  const auto address = [](const char* text) { return IpAddress::parse(text).value(); };
  const std::vector<IpAddress> wanted{address("10.0.0.5"), address("fd00::5")};
  Inventory inventory = after(some_cluster(), change("vm-a", {.addresses = wanted}));
  EXPECT_EQ(inventory.vms.at("vm-a").adapter->addresses, wanted);
  NewAdapter same = adapter("pg");
  same.addresses = {address("fd00::5")};
  expect_refused(inventory, add("vm-b", same), ErrorKind::kConflict,
                 {"VM vm-b", "fd00::5", "VM vm-a", "another"});
  must(edits::add_portgroup(inventory, "dvs", "elsewhere", {.vlan = 6}));
  same.portgroup = "elsewhere";
  EXPECT_TRUE(edits::add_adapter(inventory, "vm-b", same)) << "another VLAN";
  expect_refused(inventory, change("vm-b", {.portgroup = "pg"}), ErrorKind::kConflict, {"fd00::5"});
  const std::vector<IpAddress> many(70, address("10.0.0.9"));
  expect_refused(inventory, change("vm-a", {.addresses = many}), ErrorKind::kInvalid,
                 {"VM vm-a", "70", "fewer"});
  EXPECT_TRUE(after(inventory, change("vm-a", {.addresses = std::vector<IpAddress>{}}))
                  .vms.at("vm-a")
                  .adapter->addresses.empty());
}

TEST(VmEdits, CreatesVms) {
  const Vm vm = after(some_cluster(), create({"new", "esx-03", 7, 4, 4})).vms.at("new");
  EXPECT_EQ(vm.host, "esx-03");
  EXPECT_EQ(vm.hardware_version, 7u);
  EXPECT_FALSE(vm.adapter);
  after(some_cluster(), create({"new", "esx-03", 21, 6291456, 0}));

  const Inventory cluster = some_cluster();
  expect_refused(cluster, create({"../x", "esx-01", 14, 512, 0}), ErrorKind::kInvalid, {"../x", "VM"});
  expect_refused(cluster, create({"vm-a", "esx-01", 14, 512, 0}), ErrorKind::kConflict, {"vm-a", "already"});
  expect_refused(cluster, create({"new", "esx-09", 14, 512, 0}), ErrorKind::kNotFound, {"esx-09"});
  expect_refused(cluster, create({"new", "esx-01", 6, 512, 0}), ErrorKind::kInvalid, {"6", "new", "7 to 21"});
  expect_refused(cluster, create({"new", "esx-01", 22, 512, 0}), ErrorKind::kInvalid,
                 {"22", "new", "7 to 21"});
  expect_refused(cluster, create({"new", "esx-01", 14, 3, 0}), ErrorKind::kInvalid,
                 {"new", "3 MiB", "4 to 6291456"});
  expect_refused(cluster, create({"new", "esx-01", 14, 6291457, 0}), ErrorKind::kInvalid,
                 {"6291457", "4 to 6291456"});
  expect_refused(cluster, create({"new", "esx-01", 14, 512, 513}), ErrorKind::kInvalid,
                 {"new", "513", "512"});
}

TEST(VmEdits, NothingOfAVmThatIsOnChanges) {
  Inventory on = some_cluster();
  on.powered_on = {{"vm-a", "esx-01"}, {"vm-b", "esx-01"}};
  const std::vector<EditFunction> all{
      [](Inventory& i) { return edits::delete_vm(i, "vm-a"); },
      [](Inventory& i) { return edits::remove_adapter(i, "vm-a"); },
      change("vm-a", {.host = "esx-02"}),
      change("vm-a", {.memory_reserved_mib = 0}),
      change("vm-a", {.doorbells = DoorbellMode::kMapped}),
      upgrade("vm-a", 18),
  };
  for (const EditFunction& edit : all) {
    expect_refused(on, edit, ErrorKind::kConflict, {"vm-a", "powered on on esx-01", "power it off"});
  }
  expect_refused(on, add("vm-b", adapter("pg")), ErrorKind::kConflict, {"vm-b", "powered on"});
  on.powered_on.clear();
  for (const EditFunction& edit : all) after(on, edit);
}

TEST(VmEdits, AddsAnAdapter) {
  Inventory cluster = some_cluster();
  const VmAdapter v1 = *after(cluster, add("vm-b", adapter("pg"))).vms.at("vm-b").adapter;
  EXPECT_EQ(v1.dvs, "dvs") << "the one that has the port group";
  EXPECT_EQ(v1.protocol, RoceVersion::kV1) << "hardware version 13 has no other";
  EXPECT_EQ(v1.doorbells, kDoorbellModeDefault);
  EXPECT_EQ(v1.mac.to_string().substr(0, 9), "52:54:00:");
  test::must(edits::remove_adapter(cluster, "vm-a"));
  NewAdapter spec = adapter("pg");
  spec.mac = "00:50:56:AB:CD:EF";
  spec.profile = Profile::kEsxi;
  spec.doorbells = DoorbellMode::kTrapped;
  const VmAdapter v2 = *after(cluster, add("vm-a", spec)).vms.at("vm-a").adapter;
  EXPECT_EQ(v2.protocol, RoceVersion::kV2);
  EXPECT_EQ(v2.profile, Profile::kEsxi);
  EXPECT_EQ(v2.doorbells, DoorbellMode::kTrapped);
  EXPECT_EQ(v2.mac.to_string(), "00:50:56:ab:cd:ef");
  EXPECT_EQ(after(cluster, add("vm-a", adapter("pg", RoceVersion::kV1))).vms.at("vm-a").adapter->protocol,
            RoceVersion::kV1);
  EXPECT_EQ(after(cluster, add("vm-b", adapter("pg"))).vms.at("vm-b").adapter->mac, v1.mac)
      << "the same each time";
  for (const std::uint32_t version : {13, 14, 15, 17, 18, 19, 20, 21}) {
    const std::string name = "vm-" + std::to_string(version);
    test::must(edits::create_vm(cluster, {name, "esx-01", version, 512, 512}));
    test::must(add(name, adapter("pg"))(cluster));
  }
}

TEST(VmEdits, MacsAreUnique) {
  Inventory cluster = some_cluster();
  NewAdapter spec = adapter("pg");
  spec.mac = "52:54:00:00:00:0A";
  expect_refused(cluster, add("vm-b", spec), ErrorKind::kConflict, {"52:54:00:00:00:0a", "VM vm-a", "vm-b"});
  for (const char* mac : {"", "52:54:00:00:00", "52:54:00:00:00:0g", "52-54-00-00-00-0b", "01:00:5e:00:00:01",
                          "00:00:00:00:00:00", "52:54:00:00:00:0a:"}) {
    spec.mac = mac;
    expect_refused(cluster, add("vm-b", spec), ErrorKind::kInvalid, {"MAC", "vm-b", "52:54:00:12:34:51"});
  }
  const Mac derived = after(cluster, add("vm-b", adapter("pg"))).vms.at("vm-b").adapter->mac;
  cluster.vms.at("vm-a").adapter->mac = derived;
  EXPECT_NE(after(cluster, add("vm-b", adapter("pg"))).vms.at("vm-b").adapter->mac, derived);
}

TEST(VmEdits, MakesAMacFromTheClusterAndTheName) {
  const auto mac = [](std::uint64_t cluster_id, const char* vm) {
    Inventory cluster = some_cluster();
    cluster.cluster_id = cluster_id;
    test::must(edits::create_vm(cluster, {vm, "esx-01", 14, 512, 512}));
    test::must(edits::add_adapter(cluster, vm, {.dvs = "dvs", .portgroup = "pg"}));
    return cluster.vms.at(vm).adapter->mac.to_string();
  };
  EXPECT_NE(mac(0x1234, "VM-01"), mac(0x123400000000, "VM-01")) << "two clusters on one network";
  EXPECT_NE(mac(0x1234, "VM-01"), mac(0x1234, "VM-02"));
  EXPECT_EQ(mac(0x1234, "VM-01"), mac(0x1234, "VM-01"));
  EXPECT_TRUE(mac(0x1234, "VM-01").starts_with("52:54:00:"));
}

TEST(VmEdits, RefusesAdaptersAgainstTheRules) {
  Inventory cluster = some_cluster();
  expect_refused(cluster, add("vm-x", adapter("pg")), ErrorKind::kNotFound,
                 {"\"vm-x\"", "pvrdmactl vm list"});
  expect_refused(cluster, add("vm-a", adapter("pg")), ErrorKind::kConflict, {"vm-a", "can have one"});
  expect_refused(cluster, add("vm-b", adapter("pg", RoceVersion::kV2)), ErrorKind::kConflict,
                 {"vm-b", "hardware version 13", "RoCE v2", "14", "v1", "upgrade"});
  expect_refused(cluster, add("vm-b", adapter("nope")), ErrorKind::kNotFound, {"nope", "portgroup add"});
  NewAdapter placed = adapter("nope");
  placed.dvs = "dvs";
  expect_refused(cluster, add("vm-b", placed), ErrorKind::kNotFound, {"vm-b", "nope", "dvs"});
  placed.dvs = "gone";
  expect_refused(cluster, add("vm-b", placed), ErrorKind::kNotFound, {"vm-b", "gone"});

  Inventory old = cluster;
  old.vms.at("vm-b").hardware_version = 12;
  expect_refused(old, add("vm-b", adapter("pg")), ErrorKind::kConflict,
                 {"vm-b", "12", "13 or later", "upgrade"});
  old.vms.at("vm-b").hardware_version = 16;
  expect_refused(old, add("vm-b", adapter("pg")), ErrorKind::kConflict, {"vm-b", "16", "17 to 21"});

  Inventory away = cluster;
  away.vms.at("vm-b").host = "esx-03";
  expect_refused(away, add("vm-b", adapter("pg")), ErrorKind::kConflict,
                 {"esx-03", "vm-b", "dvs", "add-host"});

  test::must(edits::create_dvs(cluster, {"old", "6.0.0", 1}));
  test::must(edits::add_dvs_host(cluster, "old", "esx-01"));
  test::must(edits::add_portgroup(cluster, "old", "old-pg", {.vlan = 0}));
  expect_refused(cluster, add("vm-b", adapter("old-pg")), ErrorKind::kConflict,
                 {"old", "6.0.0", "6.5.0", "vm-b"});
  cluster.switches.at("old").version = "6.5.0";
  after(cluster, add("vm-b", adapter("old-pg")));
  test::must(edits::add_portgroup(cluster, "old", "pg", {.vlan = 0}));
  expect_refused(cluster, add("vm-b", adapter("pg")), ErrorKind::kInvalid, {"pg", "dvs, old", "name one"});
  placed = adapter("pg");
  placed.dvs = "old";
  EXPECT_EQ(after(cluster, add("vm-b", placed)).vms.at("vm-b").adapter->dvs, "old");
}

TEST(VmEdits, RemovesAdaptersAndVms) {
  const Inventory cluster = some_cluster();
  EXPECT_FALSE(
      after(cluster, [](Inventory& i) { return edits::remove_adapter(i, "vm-a"); }).vms.at("vm-a").adapter);
  expect_refused(cluster, [](Inventory& i) { return edits::remove_adapter(i, "vm-b"); }, ErrorKind::kNotFound,
                 {"vm-b", "no PVRDMA adapter", "vm adapter add"});
  EXPECT_FALSE(after(cluster, [](Inventory& i) { return edits::delete_vm(i, "vm-a"); }).vms.contains("vm-a"));
  expect_refused(cluster, [](Inventory& i) { return edits::delete_vm(i, "vm-x"); }, ErrorKind::kNotFound,
                 {"vm-x"});
}

TEST(VmEdits, ChangesAVmAsAWhole) {
  Inventory cluster = some_cluster();
  test::must(edits::add_portgroup(cluster, "dvs", "pg2", {.vlan = 6}));
  const Vm changed = after(cluster, change("vm-a", {.host = "esx-02",
                                                    .memory_mib = 512,
                                                    .memory_reserved_mib = 512,
                                                    .protocol = RoceVersion::kV1,
                                                    .doorbells = DoorbellMode::kMapped,
                                                    .portgroup = "pg2"}))
                         .vms.at("vm-a");
  EXPECT_EQ(changed.host, "esx-02");
  EXPECT_EQ(changed.memory_mib, 512u);
  EXPECT_EQ(changed.memory_reserved_mib, 512u);
  EXPECT_EQ(changed.adapter->protocol, RoceVersion::kV1);
  EXPECT_EQ(changed.adapter->doorbells, DoorbellMode::kMapped);
  EXPECT_EQ(changed.adapter->portgroup, "pg2");
  EXPECT_EQ(changed.adapter->mac, cluster.vms.at("vm-a").adapter->mac);
  EXPECT_TRUE(after(cluster, change("vm-a", {})) == cluster);

  expect_refused(cluster, change("vm-x", {}), ErrorKind::kNotFound, {"vm-x"});
  expect_refused(cluster, change("vm-a", {.host = "esx-09"}), ErrorKind::kNotFound, {"esx-09"});
  expect_refused(cluster, change("vm-a", {.host = "esx-03"}), ErrorKind::kConflict,
                 {"esx-03", "vm-a", "not a member", "dvs"});
  after(cluster, change("vm-b", {.host = "esx-03"}));  // it has no adapter, so any host is allowed
  expect_refused(cluster, change("vm-a", {.memory_mib = 512}), ErrorKind::kInvalid,
                 {"vm-a", "1024", "512", "reserve"});
  expect_refused(cluster, change("vm-a", {.memory_mib = 0, .memory_reserved_mib = 0}), ErrorKind::kInvalid,
                 {"vm-a", "4 to"});
  expect_refused(cluster, change("vm-a", {.memory_mib = 2048, .portgroup = "nope"}), ErrorKind::kNotFound,
                 {"nope", "dvs"});
  expect_refused(cluster, change("vm-a", {.dvs = "gone"}), ErrorKind::kNotFound, {"gone"});
  expect_refused(cluster, change("vm-b", {.protocol = RoceVersion::kV1}), ErrorKind::kNotFound,
                 {"vm-b", "no PVRDMA adapter"});
  expect_refused(cluster, change("vm-b", {.doorbells = DoorbellMode::kMapped}), ErrorKind::kNotFound,
                 {"vm-b", "no PVRDMA adapter"});
  test::must(add("vm-b", adapter("pg"))(cluster));
  expect_refused(cluster, change("vm-b", {.protocol = RoceVersion::kV2}), ErrorKind::kConflict,
                 {"vm-b", "13", "RoCE v2", "14"});

  cluster.switches.at("dvs").members.erase("esx-01");
  after(cluster, change("vm-a", {.memory_reserved_mib = 512}));  // independent of the adapter's place
}

TEST(VmEdits, AnUpgradeKeepsTheProtocol) {
  Inventory cluster = some_cluster();
  test::must(add("vm-b", adapter("pg"))(cluster));
  Inventory upgraded = after(cluster, upgrade("vm-b", 14));
  EXPECT_EQ(upgraded.vms.at("vm-b").hardware_version, 14u);
  EXPECT_EQ(upgraded.vms.at("vm-b").adapter->protocol, RoceVersion::kV1);
  EXPECT_EQ(after(upgraded, change("vm-b", {.protocol = RoceVersion::kV2})).vms.at("vm-b").adapter->protocol,
            RoceVersion::kV2)
      << "after the upgrade the admin may choose v2";
  EXPECT_EQ(after(cluster, upgrade("vm-a", 21)).vms.at("vm-a").adapter->protocol, RoceVersion::kV2);

  expect_refused(cluster, upgrade("vm-a", 14), ErrorKind::kConflict, {"vm-a", "14", "only go up"});
  expect_refused(cluster, upgrade("vm-a", 13), ErrorKind::kConflict, {"vm-a", "13", "only go up"});
  expect_refused(cluster, upgrade("vm-a", 22), ErrorKind::kInvalid, {"22", "vm-a", "7 to 21"});
  expect_refused(cluster, upgrade("vm-a", 16), ErrorKind::kConflict, {"vm-a", "16", "17 to 21"});
  expect_refused(cluster, upgrade("vm-x", 14), ErrorKind::kNotFound, {"vm-x"});
}

}  // namespace
}  // namespace pvrdma::control
