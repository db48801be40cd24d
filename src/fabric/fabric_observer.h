// FabricObserver: is told which GIDs this host's ports hold and which hosts are connected. Thread:
// shard-owned.
#pragma once

#include <string>

#include "transport/transport.h"
#include "verbs/ids.h"

namespace pvrdma::fabric {

// Called on the shard, from inside a guest's command or a transport's turn. An implementation must not block
// and must not call back into the fabric.
class FabricObserver {
 public:
  virtual ~FabricObserver() = default;
  // A local port begins or ceases to hold a GID.
  virtual void on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid, const std::string& port) = 0;
  virtual void on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) = 0;
  // A GID that a port of another shard held is now held by the same adapter's port on this shard. Neither of
  // the other two is called for that. Must not allocate.
  virtual void on_gid_moved(transport::SegmentId segment, const verbs::Gid& gid) noexcept = 0;
  // Connections to the host were established, or all were lost.
  virtual void on_host_up(transport::HostId host, bool up) = 0;
};

}  // namespace pvrdma::fabric
