// Objects as the API shows them.
#include <utility>

#include "control/model/edits.h"
#include "control/model/record_json.h"
#include "control/model/records.h"
#include "control/model/rules.h"

namespace pvrdma::control {
namespace {

Json vmks_of(const Host& host) {
  Json list = Json::array();
  for (const auto& [name, vmk] : host.vmks) {
    list.push_back(
        {{"name", name}, {"address", vmk.address.to_string()}, {"tagged", name == host.pvrdma_vmknic}});
  }
  return list;
}

Json ruleset_of(const Host& host) {
  Json ruleset{{"name", edits::kRuleset}};
  ruleset.update(to_json(host.pvrdma_ruleset));
  return ruleset;
}

Json vmnics_of(const LiveHost& live) {
  Json list = Json::array();
  for (const Vmnic& vmnic : live.vmnics) list.push_back(to_json(vmnic));
  return list;
}

Json rdma_devices_of(const Host& host, const LiveHost& live) {
  Json list = Json::array();
  for (const RdmaDevice& device : live.rdma_devices) {
    Json entry = to_json(device);
    entry["vmknic"] = host.pvrdma_vmknic;
    list.push_back(std::move(entry));
  }
  return list;
}

Json adapter_of(const Inventory& inventory, const Vm& vm) {
  if (!vm.adapter) return nullptr;
  Json adapter = to_json(*vm.adapter);
  const auto live = inventory.live_hosts.find(vm.host);
  const bool known = live != inventory.live_hosts.end();
  adapter["socket"] = known ? live->second.socket_folder + "/" + vm.name + ".sock" : std::string();
  return adapter;
}

}  // namespace

std::string host_json(const Inventory& inventory, const Host& host, bool self) {
  const auto it = inventory.live_hosts.find(host.name);
  const bool alive = it != inventory.live_hosts.end();
  const LiveHost live = alive ? it->second : LiveHost{};
  return text_of(Json{{"name", host.name},
                      {"self", self},
                      {"alive", alive},
                      {"version", live.version},
                      {"vmks", vmks_of(host)},
                      {"pvrdma_vmknic", host.pvrdma_vmknic},
                      {"ruleset", ruleset_of(host)},
                      {"vmnics", vmnics_of(live)},
                      {"rdma_devices", rdma_devices_of(host, live)},
                      {"socket_folder", live.socket_folder}});
}

std::string dvs_json(const Dvs& dvs) {
  Json portgroups = Json::array();
  for (const auto& [name, portgroup] : dvs.portgroups) {
    portgroups.push_back({{"name", name}, {"vlan", portgroup.vlan}});
  }
  Json members = Json::array();
  for (const auto& [host, assigned] : dvs.members) {
    Json uplinks = Json::object();
    for (const auto& [slot, vmnic] : assigned) uplinks[slot] = vmnic;
    members.push_back({{"host", host}, {"uplinks", std::move(uplinks)}});
  }
  return text_of(Json{{"name", dvs.name},
                      {"id", dvs.id},
                      {"version", dvs.version},
                      {"uplinks", dvs.uplinks},
                      {"portgroups", std::move(portgroups)},
                      {"members", std::move(members)}});
}

std::string vm_json(const Inventory& inventory, const Vm& vm, const std::string& not_served) {
  const auto may_power_on = check_power_on(inventory, vm.name);
  return text_of(Json{{"name", vm.name},
                      {"host", vm.host},
                      {"hardware_version", vm.hardware_version},
                      {"memory_mib", vm.memory_mib},
                      {"memory_reserved_mib", vm.memory_reserved_mib},
                      {"power", inventory.is_on(vm.name) ? "on" : "off"},
                      {"adapter", adapter_of(inventory, vm)},
                      {"power_on_refusal", may_power_on ? std::string() : may_power_on.error().message},
                      {"not_served", not_served}});
}

}  // namespace pvrdma::control
