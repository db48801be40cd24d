// NativeLinks: by which of this host's links the ports of a segment reach native endpoints, and what they
// lack where they do not: a right, a link, or a device that can carry it.
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

// Of one adapter.
struct NativeAccess {
  std::string_view why_not = {};  // what the configuration lacks, one clause; empty: nothing. Static storage
  LinkName link = {};             // means something without a `why_not` only, as does
  std::uint32_t mtu_bytes = 0;    // its port's active MTU
};

// What the link's device lacks, one clause with the way out; empty: nothing, or it has none. Any thread;
// reads sysfs.
std::string device_trouble(const NativeAccess& access, const std::string& sysfs = "/sys");

// "on", or "off: " and why; `link_trouble` is what the link itself says. Any thread; reads sysfs.
std::string describe(const NativeAccess& access, const std::string& link_trouble = {});

class NativeLinks {
 public:
  explicit NativeLinks(const std::vector<control::RoceConfig>& configured);

  // What the cluster has now: the ids of its switches, and which segments may.
  void set_cluster(const std::map<std::string, std::uint32_t>& switches,
                   const std::vector<fabric::NativeRule>& natives);

  // Whether the ports of the segment may reach native endpoints at all.
  bool allows(transport::SegmentId segment) const;
  // `has_right`: the adapter's hardware version and profile give it one.
  NativeAccess access_of(transport::SegmentId segment, bool has_right, std::uint32_t mtu_bytes) const;

 private:
  const LinkName* link_of(transport::SegmentId segment) const;  // null: none

  const std::vector<control::RoceConfig> configured_;
  std::map<transport::SegmentId, const LinkName*> links_;  // borrowed from configured_
  std::vector<transport::SegmentId> allowed_;              // of the cluster's; sorted
};

}  // namespace pvrdma::adapters
