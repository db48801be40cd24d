// Shared by the tests of cluster membership: an inventory of three hosts and a switch, made by the same edits
// that administrators make. Thread: a test's.
#pragma once

#include <gtest/gtest.h>
#include <string>

#include "control/model/edits.h"
#include "control/model/inventory.h"

namespace pvrdma::cluster {

inline void must(const Result<void>& result) {
  ASSERT_TRUE(result) << result.error().message;
}

// A host that takes part in traffic between hosts, with the address 10.0.0.NUMBER.
inline void add_host(control::Inventory& inventory, const std::string& name, int number) {
  must(control::edits::add_host(inventory, name));
  must(control::edits::add_vmk(inventory, name, "vmk2", "10.0.0." + std::to_string(number)));
  must(control::edits::set_advanced(inventory, name, control::edits::kPvrdmaVmknic, "vmk2"));
  must(control::edits::set_ruleset(inventory, name, control::edits::kRuleset, true, std::nullopt));
  inventory.live_hosts[name].name = name;
  inventory.live_hosts[name].instance = name + " once";
}

// A VM that may be powered on, with an adapter in port group pg1 of dvs1.
inline void add_vm(control::Inventory& inventory, const std::string& name, const std::string& host,
                   std::uint32_t hardware_version = 14) {
  must(control::edits::create_vm(inventory, {.name = name,
                                             .host = host,
                                             .hardware_version = hardware_version,
                                             .memory_mib = 1024,
                                             .memory_reserved_mib = 1024}));
  must(control::edits::add_adapter(inventory, name, {.dvs = "dvs1", .portgroup = "pg1"}));
}

inline void add_switch(control::Inventory& inventory) {
  must(control::edits::create_dvs(inventory, {.name = "dvs1"}));
  must(control::edits::add_portgroup(inventory, "dvs1", "pg1", {.vlan = 7}));
}

// esx-01, esx-02 and esx-03 with VM-01, VM-02 and VM-03.
inline control::Inventory three_hosts() {
  control::Inventory inventory;
  add_switch(inventory);
  for (int i = 1; i <= 3; ++i) {
    const std::string host = "esx-0" + std::to_string(i);
    add_host(inventory, host, i);
    must(control::edits::add_dvs_host(inventory, "dvs1", host));
    add_vm(inventory, "VM-0" + std::to_string(i), host);
  }
  return inventory;
}

inline control::GidKey gid_key(const control::Inventory& inventory, const std::string& last_digits) {
  const std::string zeros(32 - last_digits.size(), '0');
  return {{inventory.switches.at("dvs1").id, 7}, zeros + last_digits};
}

}  // namespace pvrdma::cluster
