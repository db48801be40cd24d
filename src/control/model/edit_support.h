// Shared by the edits of hosts, switches and VMs: finding objects by name, and finding the users of objects.
// Thread: any.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/model/inventory.h"

namespace pvrdma::control::edits {

// kInvalid: `name` is not a valid name. `kind` is the object's kind for the sentence: "host", "VM".
Result<void> check_name(std::string_view kind, const std::string& name);

// Never null. kNotFound: there is no such object.
Result<Host*> find_host(Inventory& inventory, const std::string& host);
Result<Dvs*> find_dvs(Inventory& inventory, const std::string& dvs);
Result<Vm*> find_vm(Inventory& inventory, const std::string& vm);
// Like find_vm(); also kConflict if the VM is on, or in motion to another host.
Result<Vm*> find_vm_off(Inventory& inventory, const std::string& vm);
// kConflict: the VM is in motion to another host.
Result<void> check_not_moving(const Vm& vm);

// A VM whose adapter is on `dvs` and in `portgroup` (empty: in any). Null: there is none.
const Vm* user_of(const Inventory& inventory, const std::string& dvs, const std::string& portgroup);
// A VM that is on, runs on `host`, and has its adapter on `dvs`. Null: there is none.
const Vm* running_user_of(const Inventory& inventory, const std::string& dvs, const std::string& host);

// A VM that is in motion to `host` and has its adapter on `dvs` (empty: on any). Null: there is none.
const Vm* arriving_at(const Inventory& inventory, const std::string& host, const std::string& dvs);

// "a, b" or "none"; a long list is shortened.
std::string list_of(const std::vector<std::string>& names);

// "it has a, b", or "it has none".
template <typename Named>
std::string it_has(const std::map<std::string, Named>& objects) {
  std::vector<std::string> names;
  for (const auto& [name, object] : objects) names.push_back(name);
  return "it has " + list_of(names);
}

}  // namespace pvrdma::control::edits
