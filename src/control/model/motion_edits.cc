#include <cerrno>
#include <fmt/core.h>

#include "control/model/adapter_rules.h"
#include "control/model/edit_support.h"
#include "control/model/edits.h"
#include "control/model/rules.h"

namespace pvrdma::control::edits {
namespace {

bool came_by(const Vm& vm, const VmMotion& motion) {
  return !vm.motion && vm.host == motion.to && vm.arrived_by == motion.id;
}

}  // namespace

Result<void> check_stays(const Inventory& inventory, const std::string& vm) {
  const auto found = inventory.vms.find(vm);
  return found == inventory.vms.end() ? Result<void>() : check_not_moving(found->second);
}

Result<void> check_motion(const Inventory& inventory, const std::string& vm, const std::string& to) {
  Inventory moved = inventory;
  const auto found = find_vm(moved, vm);
  if (!found) return Failure(found.error());
  Vm& there = **found;
  if (auto free = check_not_moving(there); !free) return free;
  if (!there.adapter) {
    return fail(ErrorKind::kNotFound,
                fmt::format("VM {} has no PVRDMA adapter: move it with its QEMU alone", vm));
  }
  if (auto host = find_host(moved, to); !host) return Failure(std::move(host).error().about("to"));
  if (there.host == to)
    return fail(ErrorKind::kInvalid, fmt::format("VM {} is on host {} already: choose another one", vm, to),
                "to");
  if (!inventory.is_on(vm)) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} is off: place it with pvrdmactl vm set {} --host {}", vm, vm, to));
  }
  const HostPathChoice path = choose_path(inventory, there.host, to);
  if (path.kind != HostPath::kTcp) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} cannot move from host {} to host {}, because there is no path: {}", vm,
                            there.host, to, path.reason),
                "to");
  }
  there.host = to;
  moved.powered_on.erase(vm);
  return check_power_on(moved, vm);
}

Result<void> begin_motion(Inventory& inventory, const std::string& vm, const VmMotion& motion) {
  if (auto allowed = check_motion(inventory, vm, motion.to); !allowed) return allowed;
  inventory.vms.at(vm).motion = motion;
  return {};
}

Result<void> commit_motion(Inventory& inventory, const std::string& vm, const VmMotion& motion) {
  const auto found = find_vm(inventory, vm);
  if (!found) return Failure(found.error());
  Vm& moving = **found;
  if (came_by(moving, motion)) return {};
  if (moving.motion != motion) {
    return fail(ErrorKind::kConflict, ECANCELED,
                fmt::format("the motion {} of VM {} to host {} was ended", motion.id, vm, motion.to));
  }
  moving.host = motion.to;
  moving.motion.reset();
  moving.arrived_by = motion.id;
  return {};
}

Result<void> end_motion(Inventory& inventory, const std::string& vm, const VmMotion& motion) {
  const auto found = find_vm(inventory, vm);
  if (!found) return {};
  Vm& moving = **found;
  if (moving.motion == motion) {
    moving.motion.reset();
    return {};
  }
  if (came_by(moving, motion))
    return fail(ErrorKind::kConflict, EALREADY, fmt::format("VM {} is on host {} already", vm, motion.to));
  return {};
}

}  // namespace pvrdma::control::edits
