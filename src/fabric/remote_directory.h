// RemoteDirectory: which GIDs of one segment other hosts hold, and the way to each of those hosts.
//
// Invariant: a channel lives as long as its host is in the view, and a GID's entry names a host of the view.
//
// Thread: shard-owned.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/path.h"
#include "fabric/view.h"
#include "fabric/way.h"
#include "transport/host_transport.h"
#include "verbs/ids.h"

namespace pvrdma::fabric {

class RemoteDirectory {
 public:
  explicit RemoteDirectory(transport::SegmentId segment) : segment_(segment) {}

  // Borrowed; null before it is destroyed: that closes the channels.
  void set_transport(transport::HostTransport* transport);
  transport::HostTransport* transport() const { return transport_; }

  struct Change {
    bool any = false;                   // some GID's way is another one than before
    std::vector<verbs::Gid> reachable;  // those of them which a host can be reached for now, sorted
  };
  // Takes over this segment's part of `view`. GIDs of hosts that are not in it are left out.
  Change replace(const View& view);

  // Null: no other host holds the GID. A way that leads nowhere: there is no path to the one that does.
  const Way* find(const verbs::Gid& gid) const;
  std::optional<transport::HostId> holder(const verbs::Gid& gid) const;
  // The name of the host that holds it; null: none does.
  const std::string* holder_name(const verbs::Gid& gid) const;
  // None: no other host holds it.
  std::optional<Path> path_to(const verbs::Gid& gid) const;

 private:
  struct Host {
    RemoteHost known;
    Way way;
  };
  struct Held {
    const Host* host = nullptr;
    transport::HostId id;
    PathKind kind = PathKind::kNone;  // when the entry was made
  };

  void open_channel(Host& host);

  const transport::SegmentId segment_;
  transport::HostTransport* transport_ = nullptr;
  std::map<transport::HostId, Host> hosts_;
  std::unordered_map<verbs::Gid, Held, verbs::GidHash> gids_;
};

}  // namespace pvrdma::fabric
