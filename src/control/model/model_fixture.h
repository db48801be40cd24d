// A small cluster for tests, and the check that an edit is refused.
#pragma once

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "control/model/edits.h"
#include "control/model/inventory.h"

namespace pvrdma::control::test {

using EditFunction = std::function<Result<void>(Inventory&)>;

inline void must(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

inline LiveHost live_host(const std::string& name) {
  LiveHost live{name, "instance-1", "0.1.0", "/run/pvrdma", {}, {}};
  for (const char* vmnic : {"vmnic0", "vmnic1", "vmnic2"}) {
    Vmnic nic;
    nic.name = vmnic;
    nic.link_up = true;
    live.vmnics.push_back(nic);
  }
  return live;
}

inline RdmaDevice rdma_device(const std::string& name, const std::string& uplink, bool active = true) {
  RdmaDevice device;
  device.name = name;
  device.device = "mlx5_0";
  device.active = active;
  device.paired_uplink = uplink;
  device.roce_v2 = true;
  return device;
}

// Hosts esx-01 (vmk2 10.0.0.1; its vmnic0 is paired with vmrdma0) and esx-02 (vmk2 10.0.0.2), are alive, have
// a tagged vmknic and an enabled ruleset, and are members of the switch "dvs" (uplink1, uplink2; port group
// "pg", VLAN 5). esx-03 has only a host record. VM "vm-a" on esx-01: hardware version 14, 1024 MiB all
// reserved, adapter in "pg". VM "vm-b" on esx-01: hardware version 13, 2048 MiB, none reserved, no adapter.
// All VMs are off.
inline Inventory some_cluster() {
  Inventory inventory;
  inventory.revision = 7;
  for (const char* host : {"esx-01", "esx-02", "esx-03"}) must(edits::add_host(inventory, host));
  must(edits::create_dvs(inventory, {"dvs", "8.0.0", 2}));
  must(edits::add_portgroup(inventory, "dvs", "pg", {.vlan = 5}));
  for (const auto& [host, address] : {std::pair("esx-01", "10.0.0.1"), std::pair("esx-02", "10.0.0.2")}) {
    must(edits::add_vmk(inventory, host, "vmk2", address));
    must(edits::set_advanced(inventory, host, edits::kPvrdmaVmknic, "vmk2"));
    must(edits::set_ruleset(inventory, host, edits::kRuleset, true, std::nullopt));
    must(edits::add_dvs_host(inventory, "dvs", host));
    inventory.live_hosts[host] = live_host(host);
  }
  inventory.live_hosts["esx-01"].rdma_devices.push_back(rdma_device("vmrdma0", "vmnic0"));
  must(edits::create_vm(inventory, {"vm-a", "esx-01", 14, 1024, 1024}));
  must(edits::add_adapter(inventory, "vm-a",
                          {"52:54:00:00:00:0a", "dvs", "pg", std::nullopt, Profile::kOpen}));
  must(edits::create_vm(inventory, {"vm-b", "esx-01", 13, 2048, 0}));
  return inventory;
}

inline void expect_sentence(const Error& error, ErrorKind kind, const std::vector<std::string>& essentials,
                            int code = 0) {
  EXPECT_EQ(error.kind, kind) << error.message;
  EXPECT_EQ(error.code, code) << error.message;
  for (const std::string& part : essentials) EXPECT_THAT(error.message, testing::HasSubstr(part));
  EXPECT_THAT(error.message, testing::Not(testing::EndsWith(".")));
}

// Checks that `edit` fails with `kind` and `code` and a sentence with all of `essentials`, and changes
// nothing.
inline void expect_refused(const Inventory& before, const EditFunction& edit, ErrorKind kind,
                           const std::vector<std::string>& essentials, int code = 0) {
  Inventory inventory = before;
  const auto result = edit(inventory);
  ASSERT_FALSE(result) << "allowed; expected: " << testing::PrintToString(essentials);
  expect_sentence(result.error(), kind, essentials, code);
  EXPECT_TRUE(inventory == before) << "refused, but changed something: " << result.error().message;
}

// The inventory after `edit`, which succeeds.
inline Inventory after(Inventory before, const EditFunction& edit) {
  const auto result = edit(before);
  EXPECT_TRUE(result) << result.error().message;
  return before;
}

}  // namespace pvrdma::control::test
