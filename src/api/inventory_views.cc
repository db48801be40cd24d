#include "api/inventory_views.h"

#include <algorithm>

namespace pvrdma::api {

std::vector<control::HostView> host_views(const control::Inventory& inventory, const std::string& self) {
  std::vector<control::HostView> hosts;
  for (const auto& [name, host] : inventory.hosts) hosts.push_back(view_of(inventory, host, name == self));
  return hosts;
}

std::vector<control::DvsView> switch_views(const control::Inventory& inventory) {
  std::vector<control::DvsView> switches;
  for (const auto& [name, dvs] : inventory.switches) switches.push_back(view_of(dvs));
  return switches;
}

control::VmView vm_view(const control::Inventory& inventory, const control::Vm& vm, const std::string& self,
                        const std::vector<adapters::AdapterTrouble>& troubles) {
  const auto trouble = std::ranges::find(troubles, vm.name, &adapters::AdapterTrouble::vm);
  const bool is_here = vm.adapter && vm.host == self;
  return view_of(inventory, vm, is_here && trouble != troubles.end() ? trouble->why : "");
}

std::vector<control::VmView> vm_views(const control::Inventory& inventory, const std::string& self,
                                      const std::vector<adapters::AdapterTrouble>& troubles) {
  std::vector<control::VmView> vms;
  for (const auto& [name, vm] : inventory.vms) vms.push_back(vm_view(inventory, vm, self, troubles));
  return vms;
}

}  // namespace pvrdma::api
