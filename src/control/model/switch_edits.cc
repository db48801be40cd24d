#include <algorithm>
#include <fmt/core.h>

#include "control/model/adapter_rules.h"
#include "control/model/edit_support.h"
#include "control/model/edits.h"
#include "control/model/values.h"
#include "vocabulary/ethernet.h"

namespace pvrdma::control::edits {
namespace {

constexpr std::size_t kPortGroupsMax = 1024;

struct Member {
  Dvs* dvs;
  Dvs::Assigned* assigned;
};

Result<Member> find_member(Inventory& inventory, const std::string& dvs, const std::string& host) {
  const auto found = find_dvs(inventory, dvs);
  if (!found) return Failure(found.error());
  const auto it = (*found)->members.find(host);
  if (it != (*found)->members.end()) return Member{*found, &it->second};
  return fail(ErrorKind::kNotFound,
              fmt::format("host {} is not a member of the distributed switch {}: add it with pvrdmactl dvs "
                          "add-host",
                          host, dvs));
}

Result<PortGroup*> find_portgroup(Dvs& dvs, const std::string& name) {
  const auto it = dvs.portgroups.find(name);
  if (it != dvs.portgroups.end()) return &it->second;
  return fail(ErrorKind::kNotFound, fmt::format("the distributed switch {} has no port group \"{}\": {}",
                                                dvs.name, name, it_has(dvs.portgroups)));
}

Result<void> check_mtu(const std::string& portgroup, NetworkMtu mtu) {
  if (mtu >= kNetworkMtuMin && mtu <= kNetworkMtuMax) return {};
  return fail(ErrorKind::kInvalid,
              fmt::format("MTU {} is not possible for the port group {}: use {} to {}", mtu, portgroup,
                          kNetworkMtuMin, kNetworkMtuMax),
              "mtu");
}

Result<void> check_native_peers(const std::string& portgroup, const std::vector<IpNetwork>& peers) {
  if (peers.size() <= kNativePeersMax) return {};
  return fail(ErrorKind::kInvalid,
              fmt::format("the port group {} cannot have {} native peers, {} are the limit: write "
                          "larger networks",
                          portgroup, peers.size(), kNativePeersMax),
              "native_peers");
}

// A port group of the VLAN. Null: `dvs` has none.
const std::pair<const std::string, PortGroup>* beside(const Dvs& dvs, std::uint16_t vlan) {
  const auto it = std::find_if(dvs.portgroups.begin(), dvs.portgroups.end(),
                               [vlan](const auto& each) { return each.second.vlan == vlan; });
  return it == dvs.portgroups.end() ? nullptr : &*it;
}

// The new port group with the native endpoints of the others with its VLAN.
Result<PortGroup> joined(const Dvs& dvs, const std::string& name, PortGroup portgroup) {
  const auto* other = beside(dvs, portgroup.vlan);
  if (other == nullptr) return portgroup;
  const auto& [other_name, theirs] = *other;
  const bool says_nothing = !portgroup.native_endpoints && portgroup.native_peers.empty();
  const bool same =
      portgroup.native_endpoints == theirs.native_endpoints && portgroup.native_peers == theirs.native_peers;
  if (!says_nothing && !same) {
    return fail(ErrorKind::kInvalid,
                fmt::format("the port group {} cannot have other native endpoints than {}, which has VLAN {} "
                            "too: add it without, or change {} first",
                            name, other_name, portgroup.vlan, other_name),
                "native_endpoints");
  }
  portgroup.native_endpoints = theirs.native_endpoints;
  portgroup.native_peers = theirs.native_peers;
  return portgroup;
}

Result<void> check_vmnic_exists(const Inventory& inventory, const std::string& host,
                                const std::string& vmnic) {
  const auto live = inventory.live_hosts.find(host);
  if (live == inventory.live_hosts.end()) {
    return fail(ErrorKind::kNotFound,
                fmt::format("host {} is not alive, so nobody knows whether it has {}: start its pvrdmad "
                            "first",
                            host, vmnic),
                "vmnic");
  }
  std::vector<std::string> names;
  for (const Vmnic& each : live->second.vmnics) names.push_back(each.name);
  if (std::find(names.begin(), names.end(), vmnic) != names.end()) return {};
  return fail(ErrorKind::kNotFound,
              fmt::format("host {} has no physical NIC \"{}\": it has {}", host, vmnic, list_of(names)),
              "vmnic");
}

Result<void> check_vmnic_is_free(const Inventory& inventory, const std::string& host,
                                 const std::string& vmnic) {
  for (const auto& [name, dvs] : inventory.switches) {
    const auto member = dvs.members.find(host);
    if (member == dvs.members.end()) continue;
    for (const auto& [slot, assigned] : member->second) {
      if (assigned != vmnic) continue;
      return fail(ErrorKind::kConflict,
                  fmt::format("{} of host {} is {} of the distributed switch {}, and a physical NIC is an "
                              "uplink once: free it there first",
                              vmnic, host, slot, name),
                  "vmnic");
    }
  }
  return {};
}

// Uplinks with an RDMA device cannot be added or removed while VMs use them.
Result<void> check_nobody_runs(const Inventory& inventory, const std::string& dvs, const std::string& host,
                               const std::string& vmnic) {
  const RdmaDevice* device = paired_with(inventory, host, vmnic);
  const Vm* vm = running_user_of(inventory, dvs, host);
  if (device == nullptr || vm == nullptr) return {};
  return fail(ErrorKind::kConflict,
              fmt::format("{} of host {} is paired with the RDMA device {} and VM {}, which is powered on, "
                          "uses a PVRDMA adapter on the distributed switch {}: power it off first",
                          vmnic, host, device->name, vm->name, dvs),
              "vmnic");
}

// Two switches with the same id could access each other's memory, so even a damaged guard record must not
// lead to that.
std::uint32_t free_dvs_id(Inventory& inventory) {
  const auto taken = [&](std::uint32_t id) {
    return std::any_of(inventory.switches.begin(), inventory.switches.end(),
                       [&](const auto& entry) { return entry.second.id == id; });
  };
  const auto next = [&] {
    const std::uint32_t id = inventory.next_dvs_id;
    inventory.next_dvs_id = id == UINT32_MAX ? 1 : id + 1;  // 0 is not an id
    return id;
  };
  std::uint32_t id = next();
  while (taken(id)) id = next();
  return id;
}

}  // namespace

Result<void> create_dvs(Inventory& inventory, const NewDvs& spec) {
  if (auto named = check_name("distributed switch", spec.name); !named)
    return Failure(std::move(named).error().about("name"));
  if (inventory.switches.contains(spec.name)) {
    return fail(ErrorKind::kConflict,
                fmt::format("there is a distributed switch {} already: choose another name", spec.name),
                "name");
  }
  if (!parse_dvs_version(spec.version)) {
    return fail(
        ErrorKind::kInvalid,
        fmt::format("\"{}\" is not a version of the distributed switch {}: write three numbers such as "
                    "6.5.0 or 8.0.3",
                    spec.version, spec.name),
        "version");
  }
  if (spec.uplinks < 1 || spec.uplinks > kUplinksMax) {
    return fail(ErrorKind::kInvalid,
                fmt::format("{} uplinks are not possible for the distributed switch {}: use 1 to {}",
                            spec.uplinks, spec.name, kUplinksMax),
                "uplinks");
  }
  Dvs dvs{spec.name, free_dvs_id(inventory), spec.version, {}, {}, {}};
  for (std::uint32_t i = 1; i <= spec.uplinks; ++i) dvs.uplinks.push_back(fmt::format("uplink{}", i));
  inventory.switches.emplace(spec.name, std::move(dvs));
  return {};
}

Result<void> delete_dvs(Inventory& inventory, const std::string& dvs) {
  const auto found = find_dvs(inventory, dvs);
  if (!found) return Failure(found.error());
  if (const Vm* vm = user_of(inventory, dvs, "")) {
    return fail(ErrorKind::kConflict,
                fmt::format("the PVRDMA adapter of VM {} is on the distributed switch {}: move or remove "
                            "the adapter first",
                            vm->name, dvs));
  }
  if (!(*found)->members.empty()) {
    return fail(ErrorKind::kConflict,
                fmt::format("host {} is a member of the distributed switch {}: remove it there first with "
                            "pvrdmactl dvs remove-host",
                            (*found)->members.begin()->first, dvs));
  }
  inventory.switches.erase(dvs);
  return {};
}

Result<void> add_dvs_host(Inventory& inventory, const std::string& dvs, const std::string& host) {
  const auto found = find_dvs(inventory, dvs);
  if (!found) return Failure(found.error());
  if (const auto known = find_host(inventory, host); !known) return Failure(known.error());
  if (!(*found)->members.try_emplace(host).second) {
    return fail(ErrorKind::kConflict,
                fmt::format("host {} is a member of the distributed switch {} already: there is nothing "
                            "to add",
                            host, dvs));
  }
  return {};
}

Result<void> remove_dvs_host(Inventory& inventory, const std::string& dvs, const std::string& host) {
  const auto member = find_member(inventory, dvs, host);
  if (!member) return Failure(member.error());
  if (const Vm* vm = running_user_of(inventory, dvs, host)) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} is powered on on host {} and uses the distributed switch {}: power it off "
                            "first",
                            vm->name, host, dvs));
  }
  if (const Vm* vm = arriving_at(inventory, host, dvs)) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} is on its way to host {} and uses the distributed switch {}: wait until "
                            "that is over",
                            vm->name, host, dvs));
  }
  member->dvs->members.erase(host);
  return {};
}

Result<void> set_uplink(Inventory& inventory, const std::string& dvs, const std::string& host,
                        const std::string& slot, const std::string& vmnic) {
  const auto member = find_member(inventory, dvs, host);
  if (!member) return Failure(member.error());
  const auto& slots = member->dvs->uplinks;
  if (std::find(slots.begin(), slots.end(), slot) == slots.end()) {
    return fail(ErrorKind::kNotFound, fmt::format("the distributed switch {} has no uplink \"{}\": it has {}",
                                                  dvs, slot, list_of(slots)));
  }
  Dvs::Assigned next = *member->assigned;
  const std::string before = next[slot];
  if (before == vmnic) return {};
  if (auto idle = check_nobody_runs(inventory, dvs, host, before); !idle) return idle;
  next.erase(slot);
  if (!vmnic.empty()) {
    if (auto exists = check_vmnic_exists(inventory, host, vmnic); !exists) return exists;
    if (auto free = check_vmnic_is_free(inventory, host, vmnic); !free) return free;
    if (auto idle = check_nobody_runs(inventory, dvs, host, vmnic); !idle) return idle;
    next[slot] = vmnic;
    if (auto alone = check_no_teaming(inventory, dvs, host, next); !alone) return alone;
  }
  *member->assigned = std::move(next);
  return {};
}

Result<void> add_portgroup(Inventory& inventory, const std::string& dvs, const std::string& name,
                           const PortGroup& portgroup) {
  const auto found = find_dvs(inventory, dvs);
  if (!found) return Failure(found.error());
  if (auto named = check_name("port group", name); !named) return named;
  if (portgroup.vlan > kVlanMax) {
    return fail(ErrorKind::kInvalid,
                fmt::format("VLAN {} is not possible for the port group {}: use 1 to {}, or 0 for none",
                            portgroup.vlan, name, kVlanMax),
                "vlan");
  }
  if (auto checked = check_mtu(name, portgroup.mtu); !checked) return checked;
  if (auto checked = check_native_peers(name, portgroup.native_peers); !checked) return checked;
  auto& portgroups = (*found)->portgroups;
  if (const auto it = portgroups.find(name); it != portgroups.end()) {
    return fail(ErrorKind::kConflict,
                fmt::format("the distributed switch {} has a port group {} already, with VLAN {}: choose "
                            "another name or remove it first",
                            dvs, name, it->second.vlan));
  }
  if (portgroups.size() >= kPortGroupsMax) {
    return fail(ErrorKind::kInvalid,
                fmt::format("the distributed switch {} has {} port groups, which is the limit: remove one "
                            "before adding {}",
                            dvs, kPortGroupsMax, name));
  }
  auto whole = joined(**found, name, portgroup);
  if (!whole) return Failure(std::move(whole).error());
  portgroups.emplace(name, *std::move(whole));
  return {};
}

Result<void> change_portgroup(Inventory& inventory, const std::string& dvs, const std::string& name,
                              const PortGroupChange& change) {
  const auto found = find_dvs(inventory, dvs);
  if (!found) return Failure(found.error());
  const auto portgroup = find_portgroup(**found, name);
  if (!portgroup) return Failure(portgroup.error());
  PortGroup changed = **portgroup;
  changed.mtu = change.mtu.value_or(changed.mtu);
  changed.native_endpoints = change.native_endpoints.value_or(changed.native_endpoints);
  changed.native_peers = change.native_peers.value_or(changed.native_peers);
  if (auto checked = check_mtu(name, changed.mtu); !checked) return checked;
  if (auto checked = check_native_peers(name, changed.native_peers); !checked) return checked;
  (*portgroup)->mtu = changed.mtu;
  for (auto& [each_name, each] : (*found)->portgroups) {
    if (each.vlan != changed.vlan) continue;
    each.native_endpoints = changed.native_endpoints;
    each.native_peers = changed.native_peers;
  }
  return {};
}

Result<void> remove_portgroup(Inventory& inventory, const std::string& dvs, const std::string& name) {
  const auto found = find_dvs(inventory, dvs);
  if (!found) return Failure(found.error());
  if (auto there = find_portgroup(**found, name); !there) return Failure(there.error());
  if (const Vm* vm = user_of(inventory, dvs, name)) {
    return fail(ErrorKind::kConflict,
                fmt::format("the PVRDMA adapter of VM {} is in the port group {} of the distributed switch "
                            "{}: move or remove the adapter first",
                            vm->name, name, dvs));
  }
  (*found)->portgroups.erase(name);
  return {};
}

}  // namespace pvrdma::control::edits
