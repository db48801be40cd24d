#include "base/net_device.h"

#include <fstream>
#include <net/if.h>

namespace pvrdma {

std::optional<NetDevice> find_net_device(const std::string& name, const std::string& sysfs) {
  const std::string folder = sysfs + "/class/net/" + name;
  NetDevice device;
  std::uint32_t flags = 0;
  if (!(std::ifstream(folder + "/flags") >> std::hex >> flags)) return std::nullopt;
  if (!(std::ifstream(folder + "/mtu") >> device.mtu_bytes)) return std::nullopt;
  device.is_up = (flags & IFF_UP) != 0;
  return device;
}

}  // namespace pvrdma
