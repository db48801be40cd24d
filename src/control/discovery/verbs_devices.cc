#include "control/discovery/verbs_devices.h"

#include <infiniband/verbs.h>
#include <memory>

namespace pvrdma::control {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint32_t kMtuBytesOfCode0 = 128;  // IBV_MTU_256 is 1
constexpr std::uint32_t kMtuCodeMax = IBV_MTU_4096;

struct FreeList {
  void operator()(ibv_device** list) const { ibv_free_device_list(list); }
};
struct CloseDevice {
  void operator()(ibv_context* context) const { ibv_close_device(context); }
};

// A device that cannot be opened is listed as inactive.
VerbsDevice describe(ibv_device& device) {
  VerbsDevice result;
  result.name = ibv_get_device_name(&device);
  result.iwarp = device.transport_type == IBV_TRANSPORT_IWARP;
  const std::unique_ptr<ibv_context, CloseDevice> context(ibv_open_device(&device));
  ibv_port_attr port{};
  if (!context || ibv_query_port(context.get(), kPort, &port) != 0) return result;
  result.active = port.state == IBV_PORT_ACTIVE;
  const auto mtu_code = static_cast<std::uint32_t>(port.active_mtu);
  if (mtu_code >= IBV_MTU_256 && mtu_code <= kMtuCodeMax) result.mtu = kMtuBytesOfCode0 << mtu_code;
  if (result.active) result.speed_mbps = port_speed_mbps(port.active_speed, port.active_width);
  return result;
}

}  // namespace

std::vector<VerbsDevice> list_verbs_devices() {
  int count = 0;
  const std::unique_ptr<ibv_device*, FreeList> list(ibv_get_device_list(&count));
  std::vector<VerbsDevice> devices;
  for (int i = 0; list && i < count; ++i) devices.push_back(describe(*list.get()[i]));
  return devices;
}

// IBTA 1.7, PortInfo: LinkSpeedActive, LinkSpeedExtActive and LinkWidthActive.
std::uint32_t port_speed_mbps(std::uint8_t active_speed, std::uint8_t active_width) {
  const auto lane_mbps = [&]() -> std::uint32_t {
    switch (active_speed) {
      case 1:
        return 2500;
      case 2:
        return 5000;
      case 4:
      case 8:
        return 10000;
      case 16:
        return 14000;
      case 32:
        return 25000;
      case 64:
        return 50000;
      case 128:
        return 100000;
      default:
        return 0;
    }
  };
  const auto lanes = [&]() -> std::uint32_t {
    switch (active_width) {
      case 1:
        return 1;
      case 2:
        return 4;
      case 4:
        return 8;
      case 8:
        return 12;
      case 16:
        return 2;
      default:
        return 0;
    }
  };
  return lane_mbps() * lanes();
}

}  // namespace pvrdma::control
