// NativeLinks: the links through which the ports of a segment reach native endpoints. If they do not reach
// them, it says what is missing: a right, a link, or a device that can carry the traffic.
//
// Thread: shard-owned; NativeAccess is a value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "control/config/config.h"
#include "fabric/native_rule.h"
#include "transport/transport.h"
#include "vocabulary/link_name.h"

namespace pvrdma::adapters {

// How one adapter reaches native endpoints.
struct NativeAccess {
  std::string_view why_not = {};  // what the configuration lacks, one clause; empty: nothing. Static storage
  LinkName link = {};             // valid only if `why_not` is empty, as the next
  std::uint32_t mtu_bytes = 0;    // the active MTU of the adapter's port
};

// What the link's device lacks, one clause with the way out; empty: nothing, or the link has no device. Any
// thread; reads sysfs.
std::string device_trouble(const NativeAccess& access, const std::string& sysfs = "/sys");

// "on", or "off: " and the reason. `link_trouble` is the trouble that the link reports. Any thread; reads
// sysfs.
std::string describe(const NativeAccess& access, const std::string& link_trouble = {});

class NativeLinks {
 public:
  explicit NativeLinks(const std::vector<control::RoceConfig>& configured);

  // Sets the cluster's current state: the ids of its switches, and the segments that may reach native
  // endpoints.
  void set_cluster(const std::map<std::string, std::uint32_t>& switches,
                   const std::vector<fabric::NativeRule>& natives);

  // Whether the ports of the segment may reach native endpoints at all.
  bool allows(transport::SegmentId segment) const;
  // `has_right`: whether the adapter's hardware version and profile permit it.
  NativeAccess access_of(transport::SegmentId segment, bool has_right, std::uint32_t mtu_bytes) const;

 private:
  const LinkName* link_of(transport::SegmentId segment) const;  // null: the segment has no link

  const std::vector<control::RoceConfig> configured_;
  std::map<transport::SegmentId, const LinkName*> links_;  // borrowed from configured_
  std::vector<transport::SegmentId> allowed_;              // segments of the cluster that may; sorted
};

}  // namespace pvrdma::adapters
