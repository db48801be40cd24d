// Discovery: what this host has: physical NICs (vmnicN) from sysfs, RDMA devices (vmrdmaN) from libibverbs
// and sysfs, and which of them belong together.
//
// Thread: any; blocking (reads small files, opens RDMA devices). What cannot be read is empty or 0.
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
  std::vector<std::string> vmnics;  // netdevs, vmnic0 first; empty: all with a device behind them, by name
  std::string sysfs = "/sys";
};

struct Discovered {
  std::vector<Vmnic> vmnics;
  std::vector<RdmaDevice> rdma_devices;
  friend bool operator==(const Discovered&, const Discovered&) = default;
};

// A configured netdev that does not exist (yet) is a vmnic whose link is down.
Discovered discover(const DiscoveryConfig& config);
// `devices` in place of what libibverbs lists.
Discovered discover(const DiscoveryConfig& config, const std::vector<VerbsDevice>& devices);

// The counters of port 1 of `device`, which is RdmaDevice::device ("mlx5_0"), by name. ENOENT: it has none.
Result<std::vector<std::pair<std::string, std::uint64_t>>> device_counters(const std::string& device,
                                                                           const std::string& sysfs = "/sys");

}  // namespace pvrdma::control
