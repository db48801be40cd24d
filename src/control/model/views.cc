#include "control/model/views.h"

#include "control/model/edits.h"
#include "control/model/rules.h"

namespace pvrdma::control {

RulesetView view_of(const Ruleset& ruleset) {
  return {ruleset, edits::kRuleset};
}

HostView view_of(const Inventory& inventory, const Host& host, bool self) {
  const auto it = inventory.live_hosts.find(host.name);
  HostView view{.name = host.name,
                .self = self,
                .alive = it != inventory.live_hosts.end(),
                .pvrdma_vmknic = host.pvrdma_vmknic,
                .ruleset = view_of(host.pvrdma_ruleset),
                .firewall = host.firewall};
  for (const auto& [name, address] : host.vmks) {
    view.vmks.push_back({name, address, name == host.pvrdma_vmknic});
  }
  if (!view.alive) return view;
  const LiveHost& live = it->second;
  view.version = live.version;
  view.vmnics = live.vmnics;
  for (const RdmaDevice& device : live.rdma_devices) {
    view.rdma_devices.push_back({device, host.pvrdma_vmknic});
  }
  view.socket_folder = live.socket_folder;
  return view;
}

DvsView view_of(const Dvs& dvs) {
  DvsView view{dvs, {}, {}};
  for (const auto& [name, portgroup] : dvs.portgroups) view.portgroup_list.push_back({portgroup, name});
  for (const auto& [host, assigned] : dvs.members) view.member_list.push_back({host, assigned});
  return view;
}

VmView view_of(const Inventory& inventory, const Vm& vm, const std::string& not_served) {
  VmView view{vm, inventory.is_on(vm.name) ? "on" : "off", {}, {}, not_served};
  if (vm.adapter) {
    const auto live = inventory.live_hosts.find(vm.host);
    const bool known = live != inventory.live_hosts.end();
    view.adapter_view = VmAdapterView{
        *vm.adapter, known ? live->second.socket_folder + "/" + vm.name + ".sock" : std::string()};
  }
  if (auto may = check_power_on(inventory, vm.name); !may) {
    view.power_on_refusal = std::move(may).error().message;
  }
  return view;
}

}  // namespace pvrdma::control
