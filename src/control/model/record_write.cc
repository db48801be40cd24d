#include "control/model/record_json.h"

namespace pvrdma::control {
namespace {

template <typename Object>
Json to_list(const std::vector<Object>& objects) {
  Json list = Json::array();
  for (const Object& object : objects) list.push_back(to_json(object));
  return list;
}

}  // namespace

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const Ruleset& ruleset) {
  Json allowed = Json::array();
  for (const IpNetwork& network : ruleset.allowed) allowed.push_back(network.to_string());
  return {{"enabled", ruleset.enabled}, {"allow_all", ruleset.allow_all}, {"allowed", std::move(allowed)}};
}

Json to_json(const Host& host) {
  Json vmks = Json::object();
  for (const auto& [name, vmk] : host.vmks) vmks[name] = vmk.address.to_string();
  return {{"vmks", std::move(vmks)},
          {"pvrdma_vmknic", host.pvrdma_vmknic},
          {"ruleset", to_json(host.pvrdma_ruleset)}};
}

Json to_json(const Vmnic& vmnic) {
  return {{"name", vmnic.name},
          {"netdev", vmnic.netdev},
          {"pci_address", vmnic.pci_address},
          {"driver", vmnic.driver},
          {"mac", vmnic.mac},
          {"description", vmnic.description},
          {"link_up", vmnic.link_up},
          {"mtu", vmnic.mtu},
          {"speed_mbps", vmnic.speed_mbps},
          {"full_duplex", vmnic.full_duplex}};
}

Json to_json(const RdmaDevice& device) {
  return {{"name", device.name},
          {"device", device.device},
          {"driver", device.driver},
          {"active", device.active},
          {"mtu", device.mtu},
          {"speed_mbps", device.speed_mbps},
          {"paired_uplink", device.paired_uplink},
          {"description", device.description},
          {"roce_v1", device.roce_v1},
          {"roce_v2", device.roce_v2},
          {"iwarp", device.iwarp}};
}

Json to_json(const LiveHost& host) {
  return {{"instance", host.instance},
          {"version", host.version},
          {"socket_folder", host.socket_folder},
          {"vmnics", to_list(host.vmnics)},
          {"rdma_devices", to_list(host.rdma_devices)}};
}

Json to_json(const Dvs& dvs) {
  Json portgroups = Json::object();
  for (const auto& [name, portgroup] : dvs.portgroups) portgroups[name] = Json{{"vlan", portgroup.vlan}};
  Json members = Json::object();
  for (const auto& [host, assigned] : dvs.members) {
    Json uplinks = Json::object();
    for (const auto& [slot, vmnic] : assigned) uplinks[slot] = vmnic;
    members[host] = std::move(uplinks);
  }
  return {{"id", dvs.id},
          {"version", dvs.version},
          {"uplinks", dvs.uplinks},
          {"portgroups", std::move(portgroups)},
          {"members", std::move(members)}};
}

Json to_json(const VmAdapter& adapter) {
  return {{"mac", adapter.mac.to_string()},
          {"dvs", adapter.dvs},
          {"portgroup", adapter.portgroup},
          {"protocol", to_text(adapter.protocol)},
          {"profile", to_text(adapter.profile)}};
}

Json to_json(const Vm& vm) {
  return {{"host", vm.host},
          {"hardware_version", vm.hardware_version},
          {"memory_mib", vm.memory_mib},
          {"memory_reserved_mib", vm.memory_reserved_mib},
          {"adapter", vm.adapter ? to_json(*vm.adapter) : Json(nullptr)}};
}

Json to_json(const GidHolder& holder) {
  return {{"port", holder.port}, {"host", holder.host}};
}

Json to_json(const Guard& guard) {
  return {{"revision", guard.revision}, {"next_dvs_id", guard.next_dvs_id}};
}

}  // namespace pvrdma::control
