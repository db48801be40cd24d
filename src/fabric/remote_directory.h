// RemoteDirectory: the GIDs of one segment that other hosts hold, and the kind of path that leads to those
// hosts.
//
// Invariant: a GID's entry names a host of the view.
//
// Thread: shard-owned.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "fabric/path_info.h"
#include "fabric/transports.h"
#include "fabric/view.h"
#include "transport/transport.h"
#include "verbs/ids.h"

namespace pvrdma::fabric {

class RemoteDirectory {
 public:
  explicit RemoteDirectory(transport::SegmentId segment) : segment_(segment) {}

  struct Change {
    bool any = false;                   // the path of some GID has changed
    std::vector<verbs::Gid> reachable;  // those of these GIDs whose host has a path now, sorted
  };
  // Takes over this segment's part of `view`. GIDs of hosts that are not in the view are left out. If memory
  // runs out (bad_alloc), all GIDs stay as they were, and the next call reports the change.
  Change replace(const View& view, Instant now);

  // Whether another host held the GID until recently and no host is known to hold it now. Its news may be
  // late, or its record may have expired.
  bool has_left(const verbs::Gid& gid, Instant now) const {
    const auto left = left_.find(gid);
    return left != left_.end() && now < left->second;
  }
  static constexpr Duration kLeftFor = std::chrono::seconds(30);

  // The host that holds a GID, and the kind of path to it.
  struct Found {
    transport::HostId host;
    PathKind kind;  // kNone: no path
  };
  // Empty: no other host holds it.
  std::optional<Found> find(const verbs::Gid& gid) const;
  // Whether the GID's VM is moving between hosts.
  bool is_moving(const verbs::Gid& gid) const;
  bool is_held_by(transport::HostId host, const verbs::Gid& gid) const;
  // Whether both are shards of one host of the view.
  bool is_same_host(transport::HostId a, transport::HostId b) const;
  // The name of the host that holds it; null: no host does.
  const std::string* holder_name(const verbs::Gid& gid) const;
  // Empty: no other host holds it.
  std::optional<PathInfo> path_to(const verbs::Gid& gid, const Transports& transports) const;

 private:
  // The kind of path to the host, for this segment.
  PathKind kind_of_way(const RemoteHost& host) const;

  struct Held {
    const RemoteHost* host = nullptr;  // in hosts_
    transport::HostId id;
    PathKind kind = PathKind::kNone;  // as of the last replace()
    bool is_moving = false;
  };

  const transport::SegmentId segment_;
  std::map<transport::HostId, RemoteHost> hosts_;
  std::unordered_map<verbs::Gid, Held, verbs::GidHash> gids_;
  // Until when a GID counts as recently released.
  std::unordered_map<verbs::Gid, Instant, verbs::GidHash> left_;
};

}  // namespace pvrdma::fabric
