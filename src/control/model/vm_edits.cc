#include <algorithm>
#include <fmt/core.h>

#include "control/model/adapter_rules.h"
#include "control/model/edit_support.h"
#include "control/model/edits.h"
#include "vocabulary/hardware_version.h"

namespace pvrdma::control::edits {
namespace {

constexpr std::uint32_t kMemoryMibMin = 4;
constexpr std::uint32_t kMemoryMibMax = 6u * 1024 * 1024;
constexpr std::uint32_t kMacSuffixMask = 0xffffff;

Result<void> check_memory(const Vm& vm) {
  if (vm.memory_mib < kMemoryMibMin || vm.memory_mib > kMemoryMibMax) {
    return fail(ErrorKind::kInvalid,
                fmt::format("VM {} cannot have {} MiB of memory: use {} to {}", vm.name, vm.memory_mib,
                            kMemoryMibMin, kMemoryMibMax),
                "memory_mib");
  }
  if (vm.memory_reserved_mib > vm.memory_mib) {
    return fail(ErrorKind::kInvalid,
                fmt::format("VM {} cannot have {} MiB of memory reserved: it has {}, reserve at most that",
                            vm.name, vm.memory_reserved_mib, vm.memory_mib),
                "memory_reserved_mib");
  }
  return {};
}

Result<void> check_version_known(const std::string& vm, std::uint32_t version) {
  if (version >= kVmHardwareVersionMin && version <= kVmHardwareVersionMax) return {};
  return fail(ErrorKind::kInvalid,
              fmt::format("{} is not a hardware version for VM {}: use {} to {}", version, vm,
                          kVmHardwareVersionMin, kVmHardwareVersionMax),
              "hardware_version");
}

// Null: free.
const Vm* owner_of(const Inventory& inventory, const Mac& mac) {
  const auto it = std::find_if(inventory.vms.begin(), inventory.vms.end(), [&](const auto& entry) {
    return entry.second.adapter && entry.second.adapter->mac == mac;
  });
  return it == inventory.vms.end() ? nullptr : &it->second;
}

// Made from the cluster's id and the name: VMs of one name in two clusters on one network differ, and within
// a cluster the same name gets the same address if it is free. FNV-1a spreads both.
Mac free_mac(const Inventory& inventory, const std::string& vm) {
  std::uint32_t suffix = 2166136261u;
  const auto mix = [&suffix](std::uint8_t byte) { suffix = (suffix ^ byte) * 16777619u; };
  for (std::uint64_t id = inventory.cluster_id; id != 0; id >>= 8) mix(static_cast<std::uint8_t>(id));
  for (const char c : vm) mix(static_cast<std::uint8_t>(c));
  for (suffix = (suffix >> 24) ^ suffix;; ++suffix) {
    suffix &= kMacSuffixMask;
    const Mac mac{{0x52, 0x54, 0x00, static_cast<std::uint8_t>(suffix >> 16),
                   static_cast<std::uint8_t>(suffix >> 8), static_cast<std::uint8_t>(suffix)}};
    if (owner_of(inventory, mac) == nullptr) return mac;
  }
}

Result<Mac> choose_mac(const Inventory& inventory, const std::string& vm,
                       const std::optional<std::string>& text) {
  if (!text) return free_mac(inventory, vm);
  const auto mac = Mac::parse(*text);
  if (!mac || !mac->is_unicast()) {
    return fail(ErrorKind::kInvalid,
                fmt::format("\"{}\" is not a MAC address for the adapter of VM {}: write six bytes such as "
                            "52:54:00:12:34:51, the first one even",
                            *text, vm),
                "mac");
  }
  if (const Vm* owner = owner_of(inventory, *mac)) {
    return fail(ErrorKind::kConflict,
                fmt::format("the MAC address {} is taken: VM {} has it, give the adapter of VM {} another",
                            mac->to_string(), owner->name, vm),
                "mac");
  }
  return *mac;
}

// The only switch that has the port group.
Result<std::string> dvs_with(const Inventory& inventory, const std::string& portgroup) {
  std::vector<std::string> names;
  for (const auto& [name, dvs] : inventory.switches) {
    if (dvs.portgroups.contains(portgroup)) names.push_back(name);
  }
  if (names.size() == 1) return names.front();
  if (names.empty()) {
    return fail(ErrorKind::kNotFound,
                fmt::format("no distributed switch has a port group \"{}\": add it with pvrdmactl dvs "
                            "portgroup add or choose another",
                            portgroup),
                "portgroup");
  }
  return fail(ErrorKind::kInvalid,
              fmt::format("several distributed switches have a port group {} ({}): name one of them",
                          portgroup, list_of(names)),
              "dvs");
}

Failure no_adapter(const std::string& vm) {
  return fail(ErrorKind::kNotFound,
              fmt::format("VM {} has no PVRDMA adapter: add one with pvrdmactl vm adapter add", vm));
}

// Memory alone can be changed even if the adapter's switch or port group is no longer valid.
bool touches_adapter(const VmChange& change) {
  return change.protocol || change.doorbells || change.portgroup || change.dvs || change.addresses ||
         change.owner || change.group;
}

Result<void> change_adapter(const VmChange& change, Vm& vm) {
  if (!touches_adapter(change)) return {};
  if (!vm.adapter) return no_adapter(vm.name);
  VmAdapter& adapter = *vm.adapter;
  adapter.protocol = change.protocol.value_or(adapter.protocol);
  adapter.doorbells = change.doorbells.value_or(adapter.doorbells);
  adapter.portgroup = change.portgroup.value_or(adapter.portgroup);
  adapter.dvs = change.dvs.value_or(adapter.dvs);
  adapter.addresses = change.addresses.value_or(adapter.addresses);
  adapter.owner = change.owner.value_or(adapter.owner);
  adapter.group = change.group.value_or(adapter.group);
  return {};
}

}  // namespace

Result<void> create_vm(Inventory& inventory, const NewVm& spec) {
  if (auto named = check_name("VM", spec.name); !named)
    return Failure(std::move(named).error().about("name"));
  if (inventory.vms.contains(spec.name)) {
    return fail(ErrorKind::kConflict, fmt::format("there is a VM {} already: choose another name", spec.name),
                "name");
  }
  if (auto host = find_host(inventory, spec.host); !host)
    return Failure(std::move(host).error().about("host"));
  if (auto known = check_version_known(spec.name, spec.hardware_version); !known) return known;
  Vm vm{spec.name, spec.host, spec.hardware_version, spec.memory_mib, spec.memory_reserved_mib, std::nullopt};
  if (auto memory = check_memory(vm); !memory) return memory;
  inventory.vms.emplace(spec.name, std::move(vm));
  return {};
}

Result<void> delete_vm(Inventory& inventory, const std::string& vm) {
  if (const auto found = find_vm_off(inventory, vm); !found) return Failure(found.error());
  inventory.vms.erase(vm);
  return {};
}

Result<void> add_adapter(Inventory& inventory, const std::string& vm, const NewAdapter& spec) {
  const auto found = find_vm_off(inventory, vm);
  if (!found) return Failure(found.error());
  if ((*found)->adapter) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} has a PVRDMA adapter, and a VM can have one: remove it first", vm));
  }
  Vm next = **found;
  if (auto version = check_hardware_version(next); !version) return version;
  const RoceVersion default_protocol = default_roce(*adapter_of(next.hardware_version));
  const auto dvs = spec.dvs.empty() ? dvs_with(inventory, spec.portgroup) : spec.dvs;
  if (!dvs) return Failure(dvs.error());
  const auto mac = choose_mac(inventory, vm, spec.mac);
  if (!mac) return Failure(mac.error());
  next.adapter =
      VmAdapter{*mac,         *dvs,           spec.portgroup, spec.protocol.value_or(default_protocol),
                spec.profile, spec.doorbells, spec.addresses, spec.owner,
                spec.group};
  if (auto allowed = check_adapter(inventory, next); !allowed) return allowed;
  **found = std::move(next);
  return {};
}

Result<void> remove_adapter(Inventory& inventory, const std::string& vm) {
  const auto found = find_vm_off(inventory, vm);
  if (!found) return Failure(found.error());
  if (!(*found)->adapter) return no_adapter(vm);
  (*found)->adapter.reset();
  return {};
}

Result<void> change_vm(Inventory& inventory, const std::string& vm, const VmChange& change) {
  const auto found = find_vm_off(inventory, vm);
  if (!found) return Failure(found.error());
  Vm next = **found;
  if (change.host && *change.host != next.host) next.arrived_by.clear();
  next.host = change.host.value_or(next.host);
  next.memory_mib = change.memory_mib.value_or(next.memory_mib);
  next.memory_reserved_mib = change.memory_reserved_mib.value_or(next.memory_reserved_mib);
  if (auto changed = change_adapter(change, next); !changed) return changed;
  if (auto host = find_host(inventory, next.host); !host)
    return Failure(std::move(host).error().about("host"));
  if (auto memory = check_memory(next); !memory) return memory;
  if (next.adapter && (change.host || touches_adapter(change))) {
    if (auto allowed = check_adapter(inventory, next); !allowed) return allowed;
  }
  **found = std::move(next);
  return {};
}

Result<void> upgrade_vm(Inventory& inventory, const std::string& vm, std::uint32_t hardware_version) {
  const auto found = find_vm_off(inventory, vm);
  if (!found) return Failure(found.error());
  if (auto known = check_version_known(vm, hardware_version); !known) return known;
  Vm next = **found;
  if (hardware_version <= next.hardware_version) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} has hardware version {} and cannot go to {}: upgrades only go up, create "
                            "a new VM for an older version",
                            vm, next.hardware_version, hardware_version),
                "hardware_version");
  }
  next.hardware_version = hardware_version;
  if (next.adapter) {
    if (auto offered = check_hardware_version(next); !offered) return offered;
  }
  **found = std::move(next);
  return {};
}

}  // namespace pvrdma::control::edits
