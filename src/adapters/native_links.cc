#include "adapters/native_links.h"

#include <algorithm>
#include <cstdint>
#include <fmt/core.h>
#include <fstream>
#include <net/if.h>
#include <optional>

#include "vocabulary/ethernet.h"

namespace pvrdma::adapters {
namespace {

struct NetDevice {
  bool is_up = false;  // as an administrator set it; whether it has a carrier does not matter
  std::uint32_t mtu_bytes = 0;
};

// Nullopt: there is no such device. `name` satisfies is_interface_name(). Reads small files that are in
// memory.
std::optional<NetDevice> find_net_device(const std::string& name, const std::string& sysfs) {
  const std::string folder = sysfs + "/class/net/" + name;
  NetDevice device;
  std::uint32_t flags = 0;
  if (!(std::ifstream(folder + "/flags") >> std::hex >> flags)) return std::nullopt;
  if (!(std::ifstream(folder + "/mtu") >> device.mtu_bytes)) return std::nullopt;
  device.is_up = (flags & IFF_UP) != 0;
  return device;
}

}  // namespace

std::string device_trouble(const NativeAccess& access, const std::string& sysfs) {
  if (!access.link.is_device()) return {};
  const std::string& name = access.link.name;
  const auto device = find_net_device(name, sysfs);
  if (!device) {
    return fmt::format(
        "this host has no network device {}: pvrdmactl dvs roce-rules prints the commands that make it",
        name);
  }
  if (!device->is_up) return fmt::format("the network device {0} is down: ip link set dev {0} up", name);
  const std::uint32_t needed = access.mtu_bytes + kRoceHeaderBytesMax;
  if (device->mtu_bytes < needed) {
    return fmt::format(
        "the network device {0} has MTU {1}, and packets of {2} bytes need {3}: ip link set dev {0} mtu "
        "{3}",
        name, device->mtu_bytes, access.mtu_bytes, needed);
  }
  return {};
}

std::string describe(const NativeAccess& access, const std::string& link_trouble) {
  if (!access.why_not.empty()) return fmt::format("off: {}", access.why_not);
  if (const std::string trouble = device_trouble(access); !trouble.empty()) return "off: " + trouble;
  return link_trouble.empty() ? "on"
                              : fmt::format("off: {} is down: {}", access.link.to_string(), link_trouble);
}

NativeLinks::NativeLinks(const std::vector<control::RoceConfig>& configured) : configured_(configured) {
  for (const control::RoceConfig& each : configured_) {
    if (each.dvs.empty()) links_.emplace(transport::SegmentId{}, &each.link);
  }
}

void NativeLinks::set_cluster(const std::map<std::string, std::uint32_t>& switches,
                              const std::vector<fabric::NativeRule>& natives) {
  std::erase_if(links_, [](const auto& entry) { return entry.first != transport::SegmentId{}; });
  for (const control::RoceConfig& each : configured_) {
    const auto found = switches.find(each.dvs);
    if (found != switches.end()) links_[{found->second, each.vlan}] = &each.link;
  }
  allowed_.clear();
  for (const fabric::NativeRule& rule : natives) allowed_.push_back(rule.segment);
  std::sort(allowed_.begin(), allowed_.end());
}

const LinkName* NativeLinks::link_of(transport::SegmentId segment) const {
  const auto found = links_.find(segment);
  return found == links_.end() ? nullptr : found->second;
}

bool NativeLinks::allows(transport::SegmentId segment) const {
  if (segment == transport::SegmentId{}) return link_of(segment) != nullptr;
  return std::binary_search(allowed_.begin(), allowed_.end(), segment);
}

NativeAccess NativeLinks::access_of(transport::SegmentId segment, bool has_right,
                                    std::uint32_t mtu_bytes) const {
  const LinkName* link = link_of(segment);
  if (!allows(segment)) {
    return {segment == transport::SegmentId{}
                ? "this host's configuration has no [[roce]] for adapters outside a cluster"
                : "its port group does not allow them"};
  }
  if (!has_right) return {"with the profile esxi they need hardware version 18"};
  if (link == nullptr) return {"this host's configuration has no [[roce]] with its switch and VLAN"};
  return {{}, *link, mtu_bytes};
}

}  // namespace pvrdma::adapters
