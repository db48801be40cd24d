// RDMA devices as libibverbs reports them, with values that sysfs does not have. Thread: any; blocking (opens
// each device).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pvrdma::control {

// A device and its port 1.
struct VerbsDevice {
  std::string name;  // "mlx5_0"
  bool iwarp = false;
  bool active = false;
  std::uint32_t mtu = 0;         // bytes; 0: unknown
  std::uint32_t speed_mbps = 0;  // 0 if down
};

// Empty: there are no devices, or the kernel has no RDMA support.
std::vector<VerbsDevice> list_verbs_devices();

// Converts ibv_port_attr's active_speed and active_width, which are codes. 0: unknown code.
std::uint32_t port_speed_mbps(std::uint8_t active_speed, std::uint8_t active_width);

}  // namespace pvrdma::control
