// NetDevice: what the kernel reports about a network device of this host. Thread: any; reads small files of
// sysfs, which are in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pvrdma {

struct NetDevice {
  bool is_up = false;  // as an administrator set it; whether it has a carrier does not matter
  std::uint32_t mtu_bytes = 0;
};

// Nullopt: there is no such device. `name` satisfies is_interface_name().
std::optional<NetDevice> find_net_device(const std::string& name, const std::string& sysfs = "/sys");

}  // namespace pvrdma
