// Discovery: finds this host's physical NICs (vmnicN, from sysfs) and RDMA devices (vmrdmaN, from libibverbs
// and sysfs), and pairs them.
//
// Thread: any; blocking (reads small files, opens RDMA devices). Values that cannot be read are empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "control/discovery/verbs_devices.h"
#include "control/model/inventory.h"

namespace pvrdma::control {

struct DiscoveryConfig {
  std::vector<std::string> vmnics;  // netdevs, vmnic0 first; empty: all netdevs with a device, by name
  std::string sysfs = "/sys";
};

struct Discovered {
  std::vector<Vmnic> vmnics;
  std::vector<RdmaDevice> rdma_devices;
  friend bool operator==(const Discovered&, const Discovered&) = default;
};

// A configured netdev that does not exist (yet) becomes a vmnic whose link is down.
Discovered discover(const DiscoveryConfig& config);
// Uses `devices` instead of libibverbs's list.
Discovered discover(const DiscoveryConfig& config, const std::vector<VerbsDevice>& devices);

// The counters of port 1 of `device` (RdmaDevice::device, "mlx5_0"), by name. kNotFound: it has no counters.
Result<std::vector<std::pair<std::string, std::uint64_t>>> device_counters(const std::string& device,
                                                                           const std::string& sysfs = "/sys");

}  // namespace pvrdma::control
