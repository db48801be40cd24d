#include "control/model/edit_support.h"

#include <algorithm>
#include <fmt/core.h>
#include <fmt/format.h>

#include "base/no_such.h"
#include "vocabulary/name.h"

namespace pvrdma::control::edits {
namespace {

constexpr std::size_t kNamesShownMax = 16;

template <typename Object>
Result<Object*> find(std::map<std::string, Object>& objects, const std::string& name, std::string_view kind,
                     std::string_view command) {
  const auto it = objects.find(name);
  if (it != objects.end()) return &it->second;
  return Failure(no_such(kind, name, command));
}

}  // namespace

Result<void> check_name(std::string_view kind, const std::string& name) {
  if (is_name(name)) return {};
  return fail(ErrorKind::kInvalid,
              fmt::format("\"{}\" is not a name for a {}: use {}", name.substr(0, 80), kind, kNameRule));
}

Result<Host*> find_host(Inventory& inventory, const std::string& host) {
  return find(inventory.hosts, host, "host", "host");
}

Result<Dvs*> find_dvs(Inventory& inventory, const std::string& dvs) {
  return find(inventory.switches, dvs, "distributed switch", "dvs");
}

Result<Vm*> find_vm(Inventory& inventory, const std::string& vm) {
  return find(inventory.vms, vm, "VM", "vm");
}

Result<void> check_not_moving(const Vm& vm) {
  if (!vm.motion) return {};
  return fail(ErrorKind::kConflict,
              fmt::format("VM {} is on its way to host {}: wait until that is over, or cancel it with "
                          "pvrdmactl vm migrate {} --cancel",
                          vm.name, vm.motion->to, vm.name));
}

Result<Vm*> find_vm_off(Inventory& inventory, const std::string& vm) {
  auto found = find_vm(inventory, vm);
  if (!found) return found;
  if (auto stays = check_not_moving(**found); !stays) return Failure(std::move(stays).error());
  if (!inventory.is_on(vm)) return found;
  return fail(ErrorKind::kConflict,
              fmt::format("VM {} is powered on on {}: power it off first", vm, inventory.powered_on.at(vm)));
}

const Vm* user_of(const Inventory& inventory, const std::string& dvs, const std::string& portgroup) {
  const auto uses = [&](const auto& entry) {
    const auto& adapter = entry.second.adapter;
    return adapter && adapter->dvs == dvs && (portgroup.empty() || adapter->portgroup == portgroup);
  };
  const auto it = std::find_if(inventory.vms.begin(), inventory.vms.end(), uses);
  return it == inventory.vms.end() ? nullptr : &it->second;
}

const Vm* running_user_of(const Inventory& inventory, const std::string& dvs, const std::string& host) {
  for (const auto& [name, where] : inventory.powered_on) {
    const auto it = inventory.vms.find(name);
    if (where == host && it != inventory.vms.end() && it->second.adapter && it->second.adapter->dvs == dvs) {
      return &it->second;
    }
  }
  return nullptr;
}

const Vm* arriving_at(const Inventory& inventory, const std::string& host, const std::string& dvs) {
  const auto arrives = [&](const auto& entry) {
    const Vm& vm = entry.second;
    return vm.motion && vm.motion->to == host && vm.adapter && (dvs.empty() || vm.adapter->dvs == dvs);
  };
  const auto it = std::find_if(inventory.vms.begin(), inventory.vms.end(), arrives);
  return it == inventory.vms.end() ? nullptr : &it->second;
}

std::string list_of(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  if (names.size() <= kNamesShownMax) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, ... {} in all", fmt::join(names.begin(), names.begin() + kNamesShownMax, ", "),
                     names.size());
}

}  // namespace pvrdma::control::edits
