#include <cerrno>
#include <utility>

#include "control/model/record_fields.h"

namespace pvrdma::control {
namespace {

constexpr std::size_t kValueBytesMax = 2u << 20;  // etcd's own limit is below

template <typename Object>
Result<Object> object_from(std::string_view value, Object object, void (*read)(Fields&, Object&)) {
  if (value.size() > kValueBytesMax) {
    return fail(EINVAL, fmt::format("it has {} bytes and {} are the limit", value.size(), kValueBytesMax));
  }
  const ParsedJson json = ParsedJson::parse(value, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return fail(EINVAL, "it is no JSON text");
  Fields fields(json);
  read(fields, object);
  if (!fields.trouble().empty()) return fail(EINVAL, fields.trouble());
  return object;
}

void read_ruleset(Fields& fields, Ruleset& ruleset) {
  fields.flag("enabled", ruleset.enabled);
  fields.flag("allow_all", ruleset.allow_all);
  fields.list("allowed", [&](const ParsedJson& json) {
    const auto network = IpNetwork::parse(json.is_string() ? json.get<std::string>() : std::string());
    if (!network) return fields.refuse("allowed", "has an element that is no network");
    ruleset.allowed.push_back(*network);
  });
}

void read_host(Fields& fields, Host& host) {
  fields.object("vmks", [&](const std::string& name, const ParsedJson& json) {
    const auto address = IpAddress::parse(json.is_string() ? json.get<std::string>() : std::string());
    if (!address || !is_vmk_name(name))
      return fields.refuse("vmks", "has one without a vmkN name or an address");
    host.vmks[name] = Vmk{name, *address};
  });
  fields.text("pvrdma_vmknic", host.pvrdma_vmknic);
  if (!host.pvrdma_vmknic.empty() && !is_vmk_name(host.pvrdma_vmknic)) {
    fields.refuse("pvrdma_vmknic", "is no vmkN");
  }
  fields.child("ruleset", host.pvrdma_ruleset, read_ruleset);
}

void read_vmnic(Fields& fields, Vmnic& vmnic) {
  fields.name("name", vmnic.name);
  fields.text("netdev", vmnic.netdev);
  fields.text("pci_address", vmnic.pci_address);
  fields.text("driver", vmnic.driver);
  fields.text("mac", vmnic.mac);
  fields.text("description", vmnic.description);
  fields.flag("link_up", vmnic.link_up);
  fields.number("mtu", vmnic.mtu);
  fields.number("speed_mbps", vmnic.speed_mbps);
  fields.flag("full_duplex", vmnic.full_duplex);
}

void read_rdma_device(Fields& fields, RdmaDevice& device) {
  fields.name("name", device.name);
  fields.text("device", device.device);
  fields.text("driver", device.driver);
  fields.flag("active", device.active);
  fields.number("mtu", device.mtu);
  fields.number("speed_mbps", device.speed_mbps);
  fields.text("paired_uplink", device.paired_uplink);
  fields.text("description", device.description);
  fields.flag("roce_v1", device.roce_v1);
  fields.flag("roce_v2", device.roce_v2);
  fields.flag("iwarp", device.iwarp);
}

void read_live_host(Fields& fields, LiveHost& host) {
  fields.text("instance", host.instance);
  fields.text("version", host.version);
  fields.text("socket_folder", host.socket_folder);
  fields.children("vmnics", host.vmnics, read_vmnic);
  fields.children("rdma_devices", host.rdma_devices, read_rdma_device);
}

void read_portgroup(Fields& fields, PortGroup& portgroup) {
  fields.number("vlan", portgroup.vlan, kVlanMax);
}

void read_dvs(Fields& fields, Dvs& dvs) {
  fields.number("id", dvs.id);
  if (dvs.id == 0) fields.refuse("id", "is missing or 0");
  fields.text("version", dvs.version);
  if (!parse_dvs_version(dvs.version)) fields.refuse("version", "is no version such as 8.0.3");
  fields.list("uplinks", [&](const ParsedJson& json) {
    if (!json.is_string() || !is_name(json.get<std::string>())) {
      return fields.refuse("uplinks", "has an element that is no name");
    }
    dvs.uplinks.push_back(json.get<std::string>());
  });
  fields.object("portgroups", [&](const std::string& name, const ParsedJson& json) {
    if (!is_name(name)) return fields.refuse("portgroups", "has one without a name");
    auto& portgroup = dvs.portgroups[name];
    portgroup.name = name;
    fields.nested("portgroups", json, portgroup, read_portgroup);
  });
  fields.object("members", [&](const std::string& host, const ParsedJson& json) {
    if (!is_name(host) || !json.is_object()) return fields.refuse("members", "has one that is no host");
    auto& assigned = dvs.members[host];
    for (const auto& [slot, vmnic] : json.items()) {
      const std::string text = vmnic.is_string() ? vmnic.get<std::string>() : std::string();
      if (!is_name(slot) || !is_name(text)) return fields.refuse("members", "has an uplink without a vmnic");
      assigned[slot] = text;
    }
  });
}

void read_adapter(Fields& fields, VmAdapter& adapter) {
  fields.parsed("mac", adapter.mac, Mac::parse);
  if (!adapter.mac.is_unicast()) fields.refuse("mac", "is missing or no unicast address");
  fields.name("dvs", adapter.dvs);
  fields.name("portgroup", adapter.portgroup);
  fields.parsed("protocol", adapter.protocol, from_text<RoceVersion>);
  fields.parsed("profile", adapter.profile, from_text<Profile>);
}

void read_vm(Fields& fields, Vm& vm) {
  fields.name("host", vm.host);
  fields.number("hardware_version", vm.hardware_version);
  fields.number("memory_mib", vm.memory_mib);
  fields.number("memory_reserved_mib", vm.memory_reserved_mib);
  fields.optional_child("adapter", vm.adapter, read_adapter);
}

void read_holder(Fields& fields, GidHolder& holder) {
  fields.name("port", holder.port);
  fields.name("host", holder.host);
}

void read_guard(Fields& fields, Guard& guard) {
  fields.number("revision", guard.revision);
  fields.number("next_dvs_id", guard.next_dvs_id);
  if (guard.next_dvs_id == 0) fields.refuse("next_dvs_id", "is 0");
}

}  // namespace

Result<Host> host_from(const std::string& name, std::string_view value) {
  Host host;
  host.name = name;
  return object_from(value, std::move(host), read_host);
}

Result<LiveHost> live_host_from(const std::string& name, std::string_view value) {
  LiveHost host;
  host.name = name;
  return object_from(value, std::move(host), read_live_host);
}

Result<Dvs> dvs_from(const std::string& name, std::string_view value) {
  Dvs dvs;
  dvs.name = name;
  return object_from(value, std::move(dvs), read_dvs);
}

Result<Vm> vm_from(const std::string& name, std::string_view value) {
  Vm vm;
  vm.name = name;
  return object_from(value, std::move(vm), read_vm);
}

Result<GidHolder> gid_holder_from(std::string_view value) {
  return object_from(value, GidHolder{}, read_holder);
}

Result<Guard> guard_from(std::string_view value) {
  return object_from(value, Guard{}, read_guard);
}

}  // namespace pvrdma::control
