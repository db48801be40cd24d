// RDMA devices as libibverbs sees them: what sysfs does not tell. Thread: any; blocking (opens each device).
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
  std::uint32_t mtu = 0;         // bytes; 0: not known
  std::uint32_t speed_mbps = 0;  // 0 when down
};

// Empty: none, or the kernel has no RDMA support.
std::vector<VerbsDevice> list_verbs_devices();

// From ibv_port_attr's active_speed and active_width, which are codes. 0: a code this does not know.
std::uint32_t port_speed_mbps(std::uint8_t active_speed, std::uint8_t active_width);

}  // namespace pvrdma::control
