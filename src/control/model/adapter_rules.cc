#include "control/model/adapter_rules.h"

#include <algorithm>
#include <fmt/core.h>

#include "control/model/rules.h"
#include "control/model/values.h"
#include "vocabulary/hardware_version.h"

namespace pvrdma::control {
namespace {

constexpr std::size_t kAddressesMax = 64;  // as many as an adapter has GIDs

constexpr DvsVersion kFirstDvsVersion{6, 5, 0};

}  // namespace

Result<void> check_hardware_version(const Vm& vm) {
  if (adapter_of(vm.hardware_version)) return {};
  if (vm.hardware_version < number_of(kFirstWithAdapter)) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} has hardware version {} and PVRDMA adapters need {} or later: upgrade it "
                            "with pvrdmactl vm upgrade",
                            vm.name, vm.hardware_version, number_of(kFirstWithAdapter)));
  }
  return fail(ErrorKind::kConflict,
              fmt::format("VM {} has hardware version {}, which has no PVRDMA adapters: use one of {}",
                          vm.name, vm.hardware_version, hardware_versions_with_adapter()));
}

Result<void> check_protocol(const Vm& vm, RoceVersion protocol) {
  const auto version = adapter_of(vm.hardware_version);
  if (!version || offers_roce(*version, protocol)) return {};
  return fail(ErrorKind::kConflict,
              fmt::format("VM {} has hardware version {} and RoCE v2 (like SRQs) needs {} or later: use "
                          "protocol v1 or upgrade it with pvrdmactl vm upgrade",
                          vm.name, vm.hardware_version, number_of(kFirstWithRoceV2)),
              "protocol");
}

Result<void> check_place(const Inventory& inventory, const Vm& vm, const std::string& dvs,
                         const std::string& portgroup) {
  const auto found = inventory.switches.find(dvs);
  if (found == inventory.switches.end()) {
    return fail(ErrorKind::kNotFound,
                fmt::format("VM {} needs the distributed switch \"{}\", which does not exist: create it "
                            "with pvrdmactl dvs create or choose another",
                            vm.name, dvs),
                "dvs");
  }
  const Dvs& target = found->second;
  if (!target.portgroups.contains(portgroup)) {
    return fail(ErrorKind::kNotFound,
                fmt::format("VM {} needs the port group \"{}\", which the distributed switch {} does not "
                            "have: add it with pvrdmactl dvs portgroup add or choose another",
                            vm.name, portgroup, dvs),
                "portgroup");
  }
  const auto version = parse_dvs_version(target.version);
  if (!version || *version < kFirstDvsVersion) {
    return fail(ErrorKind::kConflict,
                fmt::format("the distributed switch {} has version {} and PVRDMA needs {}.{}.{} or later: "
                            "put VM {} on a newer switch",
                            dvs, target.version, kFirstDvsVersion[0], kFirstDvsVersion[1],
                            kFirstDvsVersion[2], vm.name),
                "dvs");
  }
  if (!target.members.contains(vm.host)) {
    return fail(ErrorKind::kConflict,
                fmt::format("host {} of VM {} is not a member of the distributed switch {}: add it with "
                            "pvrdmactl dvs add-host or place the VM on a member",
                            vm.host, vm.name, dvs));
  }
  return {};
}

const RdmaDevice* paired_with(const Inventory& inventory, const std::string& host, const std::string& vmnic) {
  const auto live = inventory.live_hosts.find(host);
  if (live == inventory.live_hosts.end() || vmnic.empty()) return nullptr;
  const auto& devices = live->second.rdma_devices;
  const auto it = std::find_if(devices.begin(), devices.end(),
                               [&](const RdmaDevice& device) { return device.paired_uplink == vmnic; });
  return it == devices.end() ? nullptr : &*it;
}

Result<void> check_no_teaming(const Inventory& inventory, const std::string& dvs, const std::string& host,
                              const Dvs::Assigned& assigned) {
  if (assigned.size() < 2) return {};
  for (const auto& [slot, vmnic] : assigned) {
    if (const RdmaDevice* device = paired_with(inventory, host, vmnic)) {
      return fail(ErrorKind::kConflict,
                  fmt::format("{} of host {} is paired with the RDMA device {} and must be the host's only "
                              "uplink of the distributed switch {} (no teaming): free the other uplinks "
                              "first, or put the second NIC on another switch",
                              vmnic, host, device->name, dvs),
                  "vmnic");
    }
  }
  return {};
}

Result<void> check_addresses(const Inventory& inventory, const Vm& vm) {
  const auto& own = vm.adapter->addresses;
  if (own.size() > kAddressesMax) {
    return fail(ErrorKind::kInvalid,
                fmt::format("VM {} cannot have {} addresses: its adapter holds {} GIDs, give it fewer",
                            vm.name, own.size(), kAddressesMax),
                "addresses");
  }
  const auto segment = segment_of(inventory, vm);
  for (const auto& [name, other] : inventory.vms) {
    if (name == vm.name || !other.adapter || segment_of(inventory, other) != segment) continue;
    const auto& theirs = other.adapter->addresses;
    const auto both = std::find_first_of(own.begin(), own.end(), theirs.begin(), theirs.end());
    if (both == own.end()) continue;
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} cannot have the address {}: VM {} of the same switch and VLAN has "
                            "it, choose another",
                            vm.name, both->to_string(), name),
                "addresses");
  }
  return {};
}

Result<void> check_adapter(const Inventory& inventory, const Vm& vm) {
  if (auto version = check_hardware_version(vm); !version) return version;
  if (auto protocol = check_protocol(vm, vm.adapter->protocol); !protocol) return protocol;
  if (auto place = check_place(inventory, vm, vm.adapter->dvs, vm.adapter->portgroup); !place) return place;
  return check_addresses(inventory, vm);
}

}  // namespace pvrdma::control
