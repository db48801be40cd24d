// NativeRule: permits the ports of a segment to speak RoCE to native endpoints, that is, to machines with
// RDMA NICs that do not belong to the cluster. It also limits which endpoints. Thread: values.
#pragma once

#include <algorithm>
#include <vector>

#include "base/ip_address.h"
#include "fabric/gid_address.h"
#include "transport/transport.h"
#include "verbs/ids.h"

namespace pvrdma::fabric {

struct NativeRule {
  transport::SegmentId segment;
  std::vector<IpNetwork> peers;  // empty: all addresses

  bool allows(const verbs::Gid& gid) const {
    if (peers.empty()) return true;
    const IpAddress address = to_address(gid);
    return std::any_of(peers.begin(), peers.end(),
                       [&](const IpNetwork& network) { return network.contains(address); });
  }
  friend bool operator==(const NativeRule&, const NativeRule&) = default;
};

}  // namespace pvrdma::fabric
