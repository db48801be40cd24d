// Switch: a distributed switch's part on this host: its ports and the directory that says which port holds a
// GID.
//
// Generation: a number that changes with everything that can change the answer to "where does this GID go?":
// a GID bound or unbound, a port attached or detached. A PeerRoute that carries the current generation is
// right as it is; any other is looked up anew. That is what spares a look-up per message and makes a dangling
// route impossible to follow.
//
// A message to a GID nobody holds is dropped and counted by the sending port. The sender's timeout and
// retries turn that into what InfiniBand gives for a dead peer, RETRY_EXC_ERR.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "fabric/path.h"
#include "transport/transport.h"
#include "verbs/ids.h"

namespace pvrdma::fabric {

class Port;

class Switch {
 public:
  // `local` carries messages between ports of this host. Both are borrowed and outlive the switch.
  Switch(transport::Transport& local, const Clock& clock);
  ~Switch();  // no port is left
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  // Which way a message to `gid` would go now.
  Path path_to(const verbs::Gid& gid) const;

  struct Holder {
    verbs::Gid gid;
    std::string port;
  };
  // Every bound GID and its port, in GID order.
  std::vector<Holder> directory() const;

  // GIDs that a port wanted while another held them.
  std::uint64_t duplicates_refused() const { return duplicates_refused_; }
  const transport::Transport& local() const { return local_; }

 private:
  friend class Port;

  struct Found {
    transport::Channel* channel;  // null: `dropped` says why
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

  transport::Transport& local_;
  std::unordered_map<verbs::Gid, Port*, verbs::GidHash>
      holders_;                   // ports borrowed: they unbind before they die
  std::uint64_t generation_ = 1;  // 0 stands for "never looked up" in a PeerRoute
  std::uint32_t port_count_ = 0;
  std::uint64_t duplicates_refused_ = 0;
  const Clock& clock_;
  log::LogLimiter duplicate_log_;  // guests decide what they bind, and how often they try
};

}  // namespace pvrdma::fabric
