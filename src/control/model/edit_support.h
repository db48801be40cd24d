// What the edits of hosts, switches and VMs share: objects by name or a sentence that says there is none, and
// who uses what. Thread: any.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/model/inventory.h"

namespace pvrdma::control::edits {

// EINVAL: `name` is no name. `kind` is the object for the sentence: "host", "VM".
Result<void> check_name(std::string_view kind, const std::string& name);

// Null never: ENOENT tells which there are.
Result<Host*> find_host(Inventory& inventory, const std::string& host);
Result<Dvs*> find_dvs(Inventory& inventory, const std::string& dvs);
Result<Vm*> find_vm(Inventory& inventory, const std::string& vm);
// Likewise, and EBUSY when it is on, or on its way to another host.
Result<Vm*> find_vm_off(Inventory& inventory, const std::string& vm);
// EBUSY: it is on its way to another host.
Result<void> check_not_moving(const Vm& vm);

// A VM whose adapter is on `dvs`, and in `portgroup` unless that is empty. Null: none.
const Vm* user_of(const Inventory& inventory, const std::string& dvs, const std::string& portgroup);
// A VM that is on, runs on `host`, and whose adapter is on `dvs`. Null: none.
const Vm* running_user_of(const Inventory& inventory, const std::string& dvs, const std::string& host);

// A VM that is on its way to `host`, its adapter on `dvs`; empty: on any. Null: none.
const Vm* arriving_at(const Inventory& inventory, const std::string& host, const std::string& dvs);

// "a, b" or "none"; a long list is cut.
std::string list_of(const std::vector<std::string>& names);

// "it has a, b", or "it has none".
template <typename Named>
std::string it_has(const std::map<std::string, Named>& objects) {
  std::vector<std::string> names;
  for (const auto& [name, object] : objects) names.push_back(name);
  return "it has " + list_of(names);
}

}  // namespace pvrdma::control::edits
