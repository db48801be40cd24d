#include "control/model/rules.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>

#include "control/model/adapter_rules.h"

namespace pvrdma::control {
namespace {

// Why `host` takes no part in cross-host traffic. Empty: it does.
std::string not_reachable(const Inventory& inventory, const std::string& host) {
  const auto it = inventory.hosts.find(host);
  if (it == inventory.hosts.end()) return fmt::format("{} is no host of this cluster", host);
  if (!inventory.live_hosts.contains(host)) return fmt::format("{} is not alive", host);
  if (it->second.tagged_address() == nullptr) {
    return fmt::format(
        "{} has no tagged vmknic: pvrdmactl system settings advanced set -o /Net/PVRDMAVmknic -s "
        "vmkN there",
        host);
  }
  if (!it->second.pvrdma_ruleset.enabled)
    return fmt::format("the firewall ruleset pvrdma is disabled on {}", host);
  return {};
}

std::string not_admitted(const Host& at, const Host& other) {
  const IpAddress& address = *other.tagged_address();
  if (at.pvrdma_ruleset.admits(address)) return {};
  return fmt::format("the ruleset on {} does not admit {} (host {})", at.name, address.to_string(),
                     other.name);
}

std::string mixed_families(const Host& from, const Host& to) {
  const IpAddress& near = *from.tagged_address();
  const IpAddress& far = *to.tagged_address();
  if (near.family() == far.family()) return {};
  return fmt::format("the tagged vmknics are of different families: {} has {} and {} has {}", from.name,
                     near.to_string(), to.name, far.to_string());
}

bool has_active_hca(const Inventory& inventory, const std::string& host) {
  const auto& devices = inventory.live_hosts.at(host).rdma_devices;
  return std::any_of(devices.begin(), devices.end(),
                     [](const RdmaDevice& device) { return device.active && !device.paired_uplink.empty(); });
}

std::string why_not_hca(const Inventory& inventory, const std::string& from, const std::string& to) {
  const bool near = has_active_hca(inventory, from);
  const bool far = has_active_hca(inventory, to);
  if (near && far) return "both hosts have an active HCA, but this version carries PVRDMA over tcp only";
  if (!near && !far) return fmt::format("hosts {} and {} have no active HCA", from, to);
  return fmt::format("host {} has no active HCA", near ? to : from);
}

}  // namespace

Result<void> check_power_on(const Inventory& inventory, const std::string& vm) {
  const auto it = inventory.vms.find(vm);
  if (it == inventory.vms.end()) {
    return fail(ENOENT, fmt::format("there is no VM \"{}\": pvrdmactl vm list shows them", vm));
  }
  const Vm& found = it->second;
  if (!found.adapter) {
    return fail(EPERM, fmt::format("VM {} has no PVRDMA adapter: add one with pvrdmactl vm adapter add", vm));
  }
  if (auto allowed = check_adapter(inventory, found); !allowed) return allowed;
  const Dvs::Assigned& uplinks = inventory.switches.at(found.adapter->dvs).members.at(found.host);
  if (auto alone = check_no_teaming(inventory, found.adapter->dvs, found.host, uplinks); !alone) return alone;
  if (found.memory_reserved_mib < found.memory_mib) {
    return fail(EPERM, fmt::format("VM {} has {} MiB of memory and {} reserved, and PVRDMA needs all of it "
                                   "reserved: pvrdmactl vm set {} --reserve {}",
                                   vm, found.memory_mib, found.memory_reserved_mib, vm, found.memory_mib));
  }
  const auto on = inventory.powered_on.find(vm);
  if (on != inventory.powered_on.end() && on->second != found.host) {
    return fail(EPERM,
                fmt::format("VM {} is placed on host {} but powered on on {}: power it off there first", vm,
                            found.host, on->second));
  }
  return {};
}

Inventory with_arrivals(const Inventory& inventory, const std::string& host) {
  Inventory arrived = inventory;
  for (auto& [name, vm] : arrived.vms) {
    if (!vm.motion || vm.motion->to != host) continue;
    vm.host = host;
    vm.motion.reset();
    arrived.powered_on.erase(name);
  }
  return arrived;
}

HostPathChoice choose_path(const Inventory& inventory, const std::string& from, const std::string& to) {
  if (from == to) return {HostPath::kLocal, fmt::format("both are on host {}", from)};
  for (const std::string& host : {from, to}) {
    if (auto reason = not_reachable(inventory, host); !reason.empty())
      return {HostPath::kNone, std::move(reason)};
  }
  const Host& near = inventory.hosts.at(from);
  const Host& far = inventory.hosts.at(to);
  for (auto& reason : {mixed_families(near, far), not_admitted(near, far), not_admitted(far, near)}) {
    if (!reason.empty()) return {HostPath::kNone, reason};
  }
  return {HostPath::kTcp, why_not_hca(inventory, from, to)};
}

std::optional<Attachment> attachment_of(const Inventory& inventory, const Vm& vm) {
  if (!vm.adapter) return std::nullopt;
  const auto dvs = inventory.switches.find(vm.adapter->dvs);
  if (dvs == inventory.switches.end()) return std::nullopt;
  const auto portgroup = dvs->second.portgroups.find(vm.adapter->portgroup);
  if (portgroup == dvs->second.portgroups.end()) return std::nullopt;
  return Attachment{{dvs->second.id, portgroup->second.vlan}, portgroup->second.mtu};
}

std::optional<SegmentKey> segment_of(const Inventory& inventory, const Vm& vm) {
  const auto attachment = attachment_of(inventory, vm);
  return attachment ? std::optional(attachment->segment) : std::nullopt;
}

}  // namespace pvrdma::control
