// RemoteDirectory: which GIDs of one segment other hosts hold, and which kind of path leads to those hosts.
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
    bool any = false;                   // some GID's path is another one than before
    std::vector<verbs::Gid> reachable;  // those of them which a host can be reached for now, sorted
  };
  // Takes over this segment's part of `view`. GIDs of hosts that are not in it are left out. Without memory
  // (bad_alloc) all GIDs are as before, and what has changed is told the next time.
  Change replace(const View& view, Instant now);

  // Whether another host held the GID a short while ago and nobody is known to hold it now: its news may be
  // late, or its record lapsed.
  bool has_left(const verbs::Gid& gid, Instant now) const {
    const auto left = left_.find(gid);
    return left != left_.end() && now < left->second;
  }
  static constexpr Duration kLeftFor = std::chrono::seconds(30);

  // Which host holds a GID, and how it is reached.
  struct Found {
    transport::HostId host;
    PathKind kind;  // kNone: not at all
  };
  // None: no other host holds it.
  std::optional<Found> find(const verbs::Gid& gid) const;
  // Its VM is on its way.
  bool is_moving(const verbs::Gid& gid) const;
  bool is_held_by(transport::HostId host, const verbs::Gid& gid) const;
  // The name of the host that holds it; null: none does.
  const std::string* holder_name(const verbs::Gid& gid) const;
  // None: no other host holds it.
  std::optional<PathInfo> path_to(const verbs::Gid& gid, const Transports& transports) const;

 private:
  // For this segment.
  PathKind kind_of_way(const RemoteHost& host) const;

  struct Held {
    const RemoteHost* host = nullptr;  // in hosts_
    transport::HostId id;
    PathKind kind = PathKind::kNone;  // when the entry was made
    bool is_moving = false;
  };

  const transport::SegmentId segment_;
  std::map<transport::HostId, RemoteHost> hosts_;
  std::unordered_map<verbs::Gid, Held, verbs::GidHash> gids_;
  std::unordered_map<verbs::Gid, Instant, verbs::GidHash> left_;  // until when a GID counts as just let go
};

}  // namespace pvrdma::fabric
