#include "control/discovery/discovery.h"

#include <algorithm>
#include <fmt/core.h>
#include <limits>
#include <map>

#include "control/discovery/sysfs.h"
#include "vocabulary/name.h"

namespace pvrdma::control {
namespace {

constexpr std::size_t kGidTypesMax = 256;

std::uint32_t small_number(const Sysfs& sysfs, const std::string& path) {
  const auto number = sysfs.number(path);
  return number && *number <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::uint32_t>(*number)
                                                                       : 0;
}

// "8086:1583"; empty: not a PCI device.
std::string vendor_and_device(const Sysfs& sysfs, const std::string& device) {
  std::string vendor = sysfs.text(device + "/vendor");
  std::string id = sysfs.text(device + "/device");
  if (!vendor.starts_with("0x") || !id.starts_with("0x")) return {};
  return vendor.substr(2) + ":" + id.substr(2);
}

std::vector<std::string> wanted_netdevs(const Sysfs& sysfs, const DiscoveryConfig& config) {
  if (!config.vmnics.empty()) return config.vmnics;
  std::vector<std::string> netdevs;
  for (const std::string& name : sysfs.list("class/net")) {
    if (sysfs.exists("class/net/" + name + "/device")) netdevs.push_back(name);
  }
  return netdevs;
}

Vmnic describe_vmnic(const Sysfs& sysfs, const std::string& netdev, std::size_t index) {
  const std::string folder = "class/net/" + netdev;
  const std::string device = folder + "/device";
  Vmnic vmnic;
  vmnic.name = fmt::format("vmnic{}", index);
  vmnic.netdev = netdev;
  vmnic.driver = sysfs.link_name(device + "/driver");
  vmnic.pci_address = sysfs.exists(device) ? sysfs.pci_address(device) : std::string();
  vmnic.mac = sysfs.text(folder + "/address");
  vmnic.mtu = small_number(sysfs, folder + "/mtu");
  const std::string state = sysfs.text(folder + "/operstate");
  // Drivers without an operational state report "unknown"; then only the carrier counts.
  vmnic.link_up = sysfs.text(folder + "/carrier") == "1" && (state == "up" || state == "unknown");
  if (vmnic.link_up) vmnic.speed_mbps = small_number(sysfs, folder + "/speed");
  vmnic.full_duplex = sysfs.text(folder + "/duplex") != "half";
  const std::string ids = vendor_and_device(sysfs, device);
  if (!ids.empty()) {
    vmnic.description = fmt::format("PCI device {}", ids);
  } else if (sysfs.exists(folder)) {
    vmnic.description = "Virtual interface";
  }
  return vmnic;
}

struct RoceTypes {
  bool v1 = false;
  bool v2 = false;
};

RoceTypes roce_types(const Sysfs& sysfs, const std::string& port) {
  RoceTypes types;
  if (sysfs.text(port + "/link_layer") != "Ethernet") return types;
  const auto entries = sysfs.list(port + "/gid_attrs/types");
  for (std::size_t i = 0; i < std::min(entries.size(), kGidTypesMax); ++i) {
    const std::string type = sysfs.text(port + "/gid_attrs/types/" + entries[i]);
    types.v1 = types.v1 || type == "IB/RoCE v1";
    types.v2 = types.v2 || type == "RoCE v2";
  }
  return types;
}

std::string uplink_of(const std::vector<Vmnic>& vmnics, const std::string& netdev) {
  const auto it = std::find_if(vmnics.begin(), vmnics.end(),
                               [&](const Vmnic& vmnic) { return !netdev.empty() && vmnic.netdev == netdev; });
  return it == vmnics.end() ? std::string() : it->name;
}

RdmaDevice describe_rdma(const Sysfs& sysfs, const VerbsDevice& device, std::size_t index,
                         const std::vector<Vmnic>& vmnics) {
  const std::string folder = "class/infiniband/" + device.name;
  const std::string port = folder + "/ports/1";
  const RoceTypes roce = device.iwarp ? RoceTypes{} : roce_types(sysfs, port);
  RdmaDevice result;
  result.name = fmt::format("vmrdma{}", index);
  result.device = device.name;
  result.driver = sysfs.link_name(folder + "/device/driver");
  result.active = device.active;
  result.mtu = device.mtu;
  result.speed_mbps = device.active ? device.speed_mbps : 0;
  result.paired_uplink = uplink_of(vmnics, sysfs.text(port + "/gid_attrs/ndevs/0"));
  const std::string model = sysfs.text(folder + "/hca_type");
  const std::string ids = vendor_and_device(sysfs, folder + "/device");
  result.description =
      ids.empty() ? model : fmt::format("{}{}PCI device {}", model, model.empty() ? "" : ", ", ids);
  result.roce_v1 = roce.v1;
  result.roce_v2 = roce.v2;
  result.iwarp = device.iwarp;
  return result;
}

}  // namespace

Discovered discover(const DiscoveryConfig& config) {
  return discover(config, list_verbs_devices());
}

Discovered discover(const DiscoveryConfig& config, const std::vector<VerbsDevice>& devices) {
  const Sysfs sysfs(config.sysfs);
  Discovered found;
  for (const std::string& netdev : wanted_netdevs(sysfs, config)) {
    found.vmnics.push_back(describe_vmnic(sysfs, netdev, found.vmnics.size()));
  }
  std::vector<VerbsDevice> sorted = devices;
  std::sort(sorted.begin(), sorted.end(),
            [](const VerbsDevice& a, const VerbsDevice& b) { return a.name < b.name; });
  for (const VerbsDevice& device : sorted) {
    found.rdma_devices.push_back(describe_rdma(sysfs, device, found.rdma_devices.size(), found.vmnics));
  }
  return found;
}

Result<std::vector<std::pair<std::string, std::uint64_t>>> device_counters(const std::string& device,
                                                                           const std::string& root) {
  const Sysfs sysfs(root);
  std::map<std::string, std::uint64_t> counters;
  for (const char* folder : {"counters", "hw_counters"}) {
    if (!is_name(device)) break;
    const std::string path = fmt::format("class/infiniband/{}/ports/1/{}", device, folder);
    for (const std::string& name : sysfs.list(path)) {
      if (const auto value = sysfs.number(path + "/" + name)) counters.emplace(name, *value);
    }
  }
  if (counters.empty()) {
    return fail(ErrorKind::kNotFound,
                fmt::format("the RDMA device \"{}\" has no counters on this host: pvrdmactl rdma device "
                            "list shows the devices",
                            device));
  }
  return std::vector<std::pair<std::string, std::uint64_t>>(counters.begin(), counters.end());
}

}  // namespace pvrdma::control
