
#include "control/model/model_fixture.h"
#include "vocabulary/name.h"

namespace pvrdma::control {
namespace {

using test::after;
using test::expect_refused;
using test::some_cluster;

TEST(HostEdits, AddsAHostOnce) {
  const Inventory once = after({}, [](Inventory& i) { return edits::add_host(i, "esx-09"); });
  EXPECT_EQ(once.hosts.at("esx-09").name, "esx-09");
  EXPECT_FALSE(once.hosts.at("esx-09").pvrdma_ruleset.enabled);
  const Inventory cluster = some_cluster();
  EXPECT_TRUE(after(cluster, [](Inventory& i) { return edits::add_host(i, "esx-01"); }) == cluster);
}

TEST(HostEdits, RefusesNamesThatAreNone) {
  for (const std::string& name : {std::string(), std::string("a/b"), std::string(".."), std::string(65, 'a'),
                                  std::string("a\0b", 3), std::string("ü")}) {
    expect_refused({}, [&](Inventory& i) { return edits::add_host(i, name); }, ErrorKind::kInvalid,
                   {"host", "1 to 64"});
  }
  EXPECT_TRUE(is_name(std::string(64, 'a')));
}

TEST(HostEdits, RemovesAHostThatNobodyNeeds) {
  EXPECT_FALSE(after(some_cluster(), [](Inventory& i) {
                 return edits::remove_host(i, "esx-03");
               }).hosts.contains("esx-03"));

  Inventory cluster = some_cluster();
  const auto remove = [](Inventory& i) { return edits::remove_host(i, "esx-01"); };
  expect_refused(cluster, [](Inventory& i) { return edits::remove_host(i, "esx-09"); }, ErrorKind::kNotFound,
                 {"esx-09", "pvrdmactl host list"});
  expect_refused(cluster, remove, ErrorKind::kConflict, {"esx-01", "alive", "stop its pvrdmad"});
  cluster.live_hosts.clear();
  expect_refused(cluster, remove, ErrorKind::kConflict, {"esx-01", "member", "dvs", "remove-host"});
  test::must(edits::remove_dvs_host(cluster, "dvs", "esx-01"));
  expect_refused(cluster, remove, ErrorKind::kConflict, {"VM vm-a", "esx-01", "move it"});
  test::must(edits::delete_vm(cluster, "vm-a"));
  test::must(edits::delete_vm(cluster, "vm-b"));
  EXPECT_FALSE(after(cluster, remove).hosts.contains("esx-01"));
}

TEST(HostEdits, AddsVmks) {
  Inventory cluster =
      after(some_cluster(), [](Inventory& i) { return edits::add_vmk(i, "esx-03", "vmk0", "fd00::3"); });
  EXPECT_EQ(cluster.hosts.at("esx-03").vmks.at("vmk0"), *IpAddress::parse("fd00::3"));

  const auto add = [](const char* host, const char* name, const char* address) {
    return [=](Inventory& i) { return edits::add_vmk(i, host, name, address); };
  };
  expect_refused(cluster, add("esx-09", "vmk0", "10.0.0.9"), ErrorKind::kNotFound, {"esx-09"});
  for (const char* name : {"", "vmk", "eth0", "vmk01", "vmk1000", "vmk-1", "vmk1 "}) {
    expect_refused(cluster, add("esx-03", name, "10.0.0.9"), ErrorKind::kInvalid, {name, "vmk0 to vmk999"});
  }
  expect_refused(cluster, add("esx-03", "vmk1", "10.0.0"), ErrorKind::kInvalid,
                 {"10.0.0", "not an IP address"});
  for (const char* address : {"0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "fe80::1"}) {
    expect_refused(cluster, add("esx-03", "vmk1", address), ErrorKind::kInvalid, {address, "unicast"});
  }
  expect_refused(cluster, add("esx-03", "vmk0", "10.0.0.9"), ErrorKind::kConflict,
                 {"esx-03", "vmk0", "fd00::3"});
  expect_refused(cluster, add("esx-03", "vmk1", "10.0.0.1"), ErrorKind::kConflict,
                 {"10.0.0.1", "vmk2 of host esx-01"});
  expect_refused(cluster, add("esx-03", "vmk1", "fd00:0:0::3"), ErrorKind::kConflict,
                 {"fd00::3", "vmk0 of host esx-03"});

  for (int i = 1; i < 64; ++i) {
    const std::string n = std::to_string(i);
    test::must(edits::add_vmk(cluster, "esx-03", "vmk" + n, "10.0.1." + n));
  }
  expect_refused(cluster, add("esx-03", "vmk64", "10.0.1.64"), ErrorKind::kInvalid,
                 {"esx-03", "64", "limit"});
}

TEST(HostEdits, RemovesVmksThatAreNotTagged) {
  const Inventory cluster = some_cluster();
  const auto remove = [](Inventory& i) { return edits::remove_vmk(i, "esx-01", "vmk2"); };
  expect_refused(cluster, remove, ErrorKind::kConflict, {"vmk2", "esx-01", "tagged", "/Net/PVRDMAVmknic"});
  expect_refused(cluster, [](Inventory& i) { return edits::remove_vmk(i, "esx-01", "vmk3"); },
                 ErrorKind::kNotFound, {"vmk3", "it has vmk2"});
  const Inventory untagged =
      after(cluster, [](Inventory& i) { return edits::set_advanced(i, "esx-01", edits::kPvrdmaVmknic, ""); });
  EXPECT_EQ(untagged.hosts.at("esx-01").tagged_address(), nullptr);
  EXPECT_TRUE(after(untagged, remove).hosts.at("esx-01").vmks.empty());
}

TEST(HostEdits, ChangesTheAddressOfAVmkEvenIfItIsTagged) {
  const Inventory cluster = some_cluster();
  const auto set = [](const char* vmk, const char* address) {
    return [=](Inventory& i) { return edits::set_vmk_address(i, "esx-01", vmk, address); };
  };
  EXPECT_EQ(*after(cluster, set("vmk2", "10.0.0.77")).hosts.at("esx-01").tagged_address(),
            *IpAddress::parse("10.0.0.77"));
  EXPECT_EQ(after(cluster, set("vmk2", "10.0.0.1")), cluster) << "it may keep its own";
  expect_refused(cluster, set("vmk3", "10.0.0.77"), ErrorKind::kNotFound, {"vmk3", "it has vmk2"});
  expect_refused(cluster, set("vmk2", "10.0.0.2"), ErrorKind::kConflict, {"10.0.0.2", "host esx-02"});
  expect_refused(cluster, set("vmk2", "224.0.0.1"), ErrorKind::kInvalid, {"224.0.0.1", "unicast"});
}

TEST(HostEdits, DisablesTheFirewallAndKeepsTheRuleset) {
  Inventory cluster = some_cluster();
  test::must(edits::set_ruleset(cluster, "esx-01", "pvrdma", false, false));
  test::must(edits::set_firewall(cluster, "esx-01", false));
  const Host& host = cluster.hosts.at("esx-01");
  EXPECT_TRUE(host.effective_ruleset().enabled);
  EXPECT_TRUE(host.effective_ruleset().admits(*IpAddress::parse("192.168.0.1")));
  EXPECT_FALSE(host.pvrdma_ruleset.enabled || host.pvrdma_ruleset.allow_all);
  test::must(edits::set_firewall(cluster, "esx-01", true));
  EXPECT_EQ(host.effective_ruleset(), host.pvrdma_ruleset);
  expect_refused(cluster, [](Inventory& i) { return edits::set_firewall(i, "esx-09", true); },
                 ErrorKind::kNotFound, {"esx-09"});
}

TEST(HostEdits, TagsAVmk) {
  const Inventory cluster = some_cluster();
  EXPECT_EQ(*cluster.hosts.at("esx-01").tagged_address(), *IpAddress::parse("10.0.0.1"));
  expect_refused(cluster, [](Inventory& i) { return edits::set_advanced(i, "esx-01", "/Net/Other", "vmk2"); },
                 ErrorKind::kNotFound, {"/Net/Other", "/Net/PVRDMAVmknic"});
  expect_refused(cluster,
                 [](Inventory& i) { return edits::set_advanced(i, "esx-01", edits::kPvrdmaVmknic, "vmk7"); },
                 ErrorKind::kNotFound, {"esx-01", "vmk7", "it has vmk2"});
  expect_refused(cluster,
                 [](Inventory& i) { return edits::set_advanced(i, "esx-09", edits::kPvrdmaVmknic, ""); },
                 ErrorKind::kNotFound, {"esx-09"});
}

TEST(HostEdits, SetsTheRuleset) {
  const Inventory cluster = some_cluster();
  const auto set = [](const char* ruleset, std::optional<bool> enabled, std::optional<bool> allow_all) {
    return [=](Inventory& i) { return edits::set_ruleset(i, "esx-03", ruleset, enabled, allow_all); };
  };
  const Ruleset one = after(cluster, set("pvrdma", true, std::nullopt)).hosts.at("esx-03").pvrdma_ruleset;
  EXPECT_TRUE(one.enabled && one.allow_all);
  const Ruleset two = after(cluster, set("pvrdma", std::nullopt, false)).hosts.at("esx-03").pvrdma_ruleset;
  EXPECT_FALSE(two.enabled || two.allow_all);
  expect_refused(cluster, set("sshServer", true, std::nullopt), ErrorKind::kNotFound,
                 {"sshServer", "esx-03", "pvrdma"});
  expect_refused(cluster, set("pvrdma", std::nullopt, std::nullopt), ErrorKind::kInvalid,
                 {"pvrdma", "enabled", "allow_all"});
}

TEST(HostEdits, ReplacesTheAllowedNetworks) {
  Inventory cluster = some_cluster();
  const auto set = [](std::vector<std::string> allowed) {
    return [=](Inventory& i) {
      return edits::set_ruleset(i, "esx-01", "pvrdma", std::nullopt, std::nullopt, allowed);
    };
  };
  std::vector<std::string> most;
  for (int i = 0; i < 256; ++i) most.push_back("10.1." + std::to_string(i) + ".0/24");
  cluster = after(cluster, set(most));
  EXPECT_EQ(cluster.hosts.at("esx-01").pvrdma_ruleset.allowed.size(), 256U);
  const Inventory two = after(cluster, set({"192.168.0.0/16", "10.0.0.1"}));
  EXPECT_EQ(two.hosts.at("esx-01").pvrdma_ruleset.allowed,
            (std::vector{*IpNetwork::parse("192.168.0.0/16"), *IpNetwork::parse("10.0.0.1")}));
  EXPECT_TRUE(after(cluster, set({})).hosts.at("esx-01").pvrdma_ruleset.allowed.empty());
  most.emplace_back("10.2.0.0/24");
  expect_refused(cluster, set(most), ErrorKind::kInvalid, {"esx-01", "257", "256"});
  expect_refused(cluster, set({"10.0.0.0/24", "10.0.0.0/24"}), ErrorKind::kInvalid, {"10.0.0.0/24", "twice"});
  expect_refused(cluster, set({"10.0.0.0/24", "1.2.3.4/99"}), ErrorKind::kInvalid, {"1.2.3.4/99"});
}

TEST(HostEdits, KeepsTheAllowedNetworks) {
  const auto add = [](const std::string& network) {
    return [=](Inventory& i) { return edits::add_allowed_ip(i, "esx-01", "pvrdma", network); };
  };
  const auto remove = [](const std::string& network) {
    return [=](Inventory& i) { return edits::remove_allowed_ip(i, "esx-01", "pvrdma", network); };
  };
  Inventory cluster = after(some_cluster(), add("10.0.0.7/24"));
  Ruleset& ruleset = cluster.hosts.at("esx-01").pvrdma_ruleset;
  EXPECT_TRUE(ruleset.admits(*IpAddress::parse("192.168.0.1"))) << "all are allowed";
  ruleset.allow_all = false;
  EXPECT_TRUE(ruleset.admits(*IpAddress::parse("10.0.0.200")));
  EXPECT_FALSE(ruleset.admits(*IpAddress::parse("10.0.1.1")));

  expect_refused(cluster, add("10.0.0.0/33"), ErrorKind::kInvalid, {"10.0.0.0/33", "0 to 32"});
  expect_refused(cluster, add("10.0.0.9/24"), ErrorKind::kConflict, {"esx-01", "10.0.0.0/24", "already"});
  expect_refused(cluster, remove("10.0.0.0/25"), ErrorKind::kNotFound, {"10.0.0.0/25", "it has 10.0.0.0/24"});
  expect_refused(cluster, remove("x"), ErrorKind::kInvalid, {"\"x\""});
  expect_refused(cluster, [](Inventory& i) { return edits::add_allowed_ip(i, "esx-01", "x", "10.0.0.1"); },
                 ErrorKind::kNotFound, {"\"x\""});
  EXPECT_TRUE(after(cluster, remove("10.0.0.1/24")).hosts.at("esx-01").pvrdma_ruleset.allowed.empty());

  for (int i = 1; i < 256; ++i) test::must(add("10.1.0." + std::to_string(i))(cluster));
  expect_refused(cluster, add("10.2.0.1"), ErrorKind::kInvalid, {"256", "limit", "10.2.0.1"});
}

}  // namespace
}  // namespace pvrdma::control
