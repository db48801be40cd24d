#include "control/model/rules.h"

#include <algorithm>
#include <fmt/core.h>
#include <tuple>
#include <utility>

#include "base/no_such.h"
#include "control/model/adapter_rules.h"

namespace pvrdma::control {

std::string why_unreachable(const Inventory& inventory, const std::string& host) {
  const auto it = inventory.hosts.find(host);
  if (it == inventory.hosts.end()) return fmt::format("{} is not a host of this cluster", host);
  if (!inventory.live_hosts.contains(host)) return fmt::format("{} is not alive", host);
  if (it->second.tagged_address() == nullptr) {
    return fmt::format(
        "{} has no tagged vmknic: pvrdmactl system settings advanced set -o /Net/PVRDMAVmknic -s vmkN -H {}",
        host, host);
  }
  if (!it->second.effective_ruleset().enabled)
    return fmt::format(
        "the firewall ruleset pvrdma is disabled on {}: pvrdmactl network firewall ruleset set -r pvrdma -e "
        "true -H {}",
        host, host);
  return {};
}

namespace {

std::string not_admitted(const Host& at, const Host& other) {
  const IpAddress& address = *other.tagged_address();
  if (at.effective_ruleset().admits(address)) return {};
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

// The NIC that the device is paired with is an uplink of the host on that switch, and the only one.
bool is_only_uplink(const Dvs& dvs, const std::string& host, const std::string& vmnic) {
  const auto member = dvs.members.find(host);
  return member != dvs.members.end() && member->second.size() == 1 && member->second.begin()->second == vmnic;
}

std::optional<HcaChoice> choose_hca(const Inventory& inventory, const std::string& from,
                                    const std::string& to, std::string& reason) {
  std::string why_near;
  std::string why_far;
  const RdmaDevice* const near = hca_of(inventory, from, why_near);
  const RdmaDevice* const far = hca_of(inventory, to, why_far);
  if (near == nullptr && far == nullptr && why_near.empty() && why_far.empty()) {
    reason = fmt::format("hosts {} and {} have no active HCA", from, to);
    return std::nullopt;
  }
  for (const auto& [device, host, why] :
       {std::tuple(near, &from, &why_near), std::tuple(far, &to, &why_far)}) {
    if (device != nullptr) continue;
    if (!reason.empty()) reason += ", ";
    reason += why->empty() ? fmt::format("host {} has no active HCA", *host) : *why;
  }
  if (near == nullptr || far == nullptr) return std::nullopt;
  HcaChoice choice{near->device, {}};
  for (const auto& [name, dvs] : inventory.switches) {
    if (is_only_uplink(dvs, from, near->paired_uplink) && is_only_uplink(dvs, to, far->paired_uplink))
      choice.switches.push_back(dvs.id);
  }
  std::ranges::sort(choice.switches);
  const std::string both = fmt::format("{} of host {} and {} of host {}", near->name, from, far->name, to);
  reason = choice.switches.empty() ? both + " are not uplinks of the same switch" : both;
  return choice.switches.empty() ? std::nullopt : std::optional(std::move(choice));
}

}  // namespace

const RdmaDevice* hca_of(const Inventory& inventory, const std::string& host, std::string& why) {
  why.clear();
  const auto live = inventory.live_hosts.find(host);
  if (live == inventory.live_hosts.end()) return nullptr;
  for (const RdmaDevice& device : live->second.rdma_devices) {
    if (!device.active || device.paired_uplink.empty()) continue;
    if (device.iwarp || !device.roce_v2) {
      why = fmt::format("{} of host {} is {}", device.name, host, device.iwarp ? "iWARP" : "without RoCE v2");
      continue;
    }
    const bool is_uplink = std::ranges::any_of(inventory.switches, [&](const auto& entry) {
      return is_only_uplink(entry.second, host, device.paired_uplink);
    });
    if (is_uplink) return &device;
    why = fmt::format("{} of host {} is paired with {}, which is not the only uplink of a switch",
                      device.name, host, device.paired_uplink);
  }
  return nullptr;
}

Result<void> check_power_on(const Inventory& inventory, const std::string& vm) {
  const auto it = inventory.vms.find(vm);
  if (it == inventory.vms.end()) return Failure(no_such("VM", vm, "vm"));
  const Vm& found = it->second;
  if (!found.adapter) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} has no PVRDMA adapter: add one with pvrdmactl vm adapter add", vm));
  }
  if (auto allowed = check_adapter(inventory, found); !allowed) return allowed;
  const Dvs::Assigned& uplinks = inventory.switches.at(found.adapter->dvs).members.at(found.host);
  if (auto alone = check_no_teaming(inventory, found.adapter->dvs, found.host, uplinks); !alone) return alone;
  if (found.memory_reserved_mib < found.memory_mib) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} has {} MiB of memory and {} reserved, and PVRDMA needs all of it "
                            "reserved: pvrdmactl vm set {} --reserve {}",
                            vm, found.memory_mib, found.memory_reserved_mib, vm, found.memory_mib));
  }
  const auto on = inventory.powered_on.find(vm);
  if (on != inventory.powered_on.end() && on->second != found.host) {
    return fail(ErrorKind::kConflict,
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
  if (from == to) return {HostPath::kLocal, fmt::format("both are on host {}", from), std::nullopt};
  for (const std::string& host : {from, to}) {
    if (auto reason = why_unreachable(inventory, host); !reason.empty())
      return {HostPath::kNone, std::move(reason), std::nullopt};
  }
  const Host& near = inventory.hosts.at(from);
  const Host& far = inventory.hosts.at(to);
  for (auto& reason : {mixed_families(near, far), not_admitted(near, far), not_admitted(far, near)}) {
    if (!reason.empty()) return {HostPath::kNone, reason, std::nullopt};
  }
  HostPathChoice choice{HostPath::kTcp, {}, std::nullopt};
  choice.hca = choose_hca(inventory, from, to, choice.reason);
  return choice;
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
