// Switch: one segment of a distributed switch as this host sees it: the ports here, the directory that says
// which of them holds a GID, and what other hosts hold (remote_directory.h).
//
// Generation: a number that changes with everything that can change the answer to "where does this GID go?":
// a GID bound or unbound, a port attached or detached, here or elsewhere. A PeerRoute that carries the
// current generation is right as it is; any other is looked up anew. That is what spares a look-up per
// message and makes a dangling route impossible to follow.
//
// A message to a GID nobody holds is dropped and counted by the sending port. The sender's timeout and
// retries turn that into what InfiniBand gives for a dead peer, RETRY_EXC_ERR.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "fabric/observer.h"
#include "fabric/path.h"
#include "fabric/remote_directory.h"
#include "fabric/view.h"
#include "fabric/way.h"
#include "transport/host_transport.h"
#include "transport/transport.h"
#include "verbs/ids.h"

namespace pvrdma::fabric {

class Port;

class Switch {
 public:
  // `local` carries messages between ports of this host; `observer` may be null. All borrowed; they outlive
  // the switch.
  Switch(transport::SegmentId segment, transport::Transport& local, const Clock& clock,
         Observer* observer = nullptr);
  ~Switch();  // no port is left
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  transport::SegmentId segment() const { return segment_; }

  // --- What the fabric tells it of other hosts. On an empty stack: engines send from inside. ---

  // Borrowed; null before it is destroyed.
  void set_host_transport(transport::HostTransport* transport);
  // Takes over this segment's part of `view`. Connections whose peer moved or became reachable go on at once.
  void set_view(const View& view, Instant now);
  // Requests that a path refused may be sent again.
  void paths_ready(Instant now);
  // What was sent to `host` and not answered may be lost.
  void paths_restored(transport::HostId host, Instant now);

  // A message from `host`, `source` to `destination`: may it come in, and at which port?
  struct Admission {
    transport::Delivery verdict;
    Port* port;  // null unless kDelivered
  };
  Admission admit(transport::HostId host, const verbs::Gid& source, const verbs::Gid& destination) const;

  // --- Listings ---

  // Which way a message to `gid` would go now.
  Path path_to(const verbs::Gid& gid) const;

  struct Holder {
    verbs::Gid gid;
    std::string port;
  };
  // Every bound GID and its port, in GID order.
  std::vector<Holder> directory() const;

  // GIDs that a port wanted while another held them, here or on another host.
  std::uint64_t duplicates_refused() const { return duplicates_refused_; }

 private:
  friend class Port;

  struct Found {
    const Way* way;  // null: `dropped` says why
    DropReason dropped;
  };
  Found find(const verbs::Gid& gid) const;
  bool holds(const Port& port, const verbs::Gid& gid) const;

  // True when `port` holds `gid` afterwards: newly, or already before.
  bool bind(Port& port, const verbs::Gid& gid);
  // Nothing happens unless `port` holds it.
  void unbind(Port& port, const verbs::Gid& gid);
  void unbind_all(Port& port);
  void changed() { ++generation_; }
  void flush(Instant now);
  void refuse(const Port& port, const verbs::Gid& gid, const std::string& holder);
  // The engines behind all attached ports.
  void each_engine(const std::function<void(verbs::Engine&)>& visit);

  const transport::SegmentId segment_;
  transport::Transport& local_;
  Observer* const observer_;
  std::unordered_map<verbs::Gid, Port*, verbs::GidHash>
      holders_;                   // ports borrowed: they unbind before they die
  std::uint64_t generation_ = 1;  // 0 stands for "never looked up" in a PeerRoute
  std::vector<Port*> ports_;      // borrowed: they leave before they die
  RemoteDirectory remote_;
  std::uint64_t duplicates_refused_ = 0;
  const Clock& clock_;
  log::LogLimiter duplicate_log_;  // guests decide what they bind, and how often they try
};

}  // namespace pvrdma::fabric
