// Switch: one segment of a distributed switch, as one shard of this host sees it: its ports on this shard,
// the directory of the GIDs that they hold, what ports on the host's other shards hold (host_gids.h), and
// what other hosts hold (remote_directory.h).
//
// Generation: a number that changes whenever the answer to "where does this GID go?" may change: a GID is
// bound or unbound, a port is attached or detached, a transport is added or removed, here or on another host.
// It is the same for all shards of the host.
// A path of the current generation is valid; any other is opened again. This saves a look-up for each message
// and makes it impossible to use a dangling path.
//
// A GID is lost if a port here has bound it and, according to the store, another host holds it too. Two hosts
// had bound it before either knew of the other, and the other's record came first. Until the other host
// releases the GID, the port neither sends nor receives with it, although its guest still has it bound.
//
// A message to a GID that no port holds is dropped and counted by the sending port. The sender's timeout and
// retries then produce what InfiniBand specifies for a dead peer, RETRY_EXC_ERR.
//
// Thread: shard-owned.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "fabric/fabric_observer.h"
#include "fabric/host_gids.h"
#include "fabric/native_rule.h"
#include "fabric/path_info.h"
#include "fabric/remote_directory.h"
#include "fabric/reservations.h"
#include "fabric/transports.h"
#include "fabric/view.h"
#include "transport/transport.h"
#include "verbs/ids.h"

namespace pvrdma::fabric {

class Port;

class Switch {
 public:
  // `shard` is this one, and `host` all shards'. `observer` may be null. All are borrowed and outlive the
  // switch.
  Switch(transport::SegmentId segment, const Transports& transports, const Clock& clock, HostGids& host,
         transport::ShardNumber shard = {}, FabricObserver* observer = nullptr);
  ~Switch();  // all ports have been destroyed before
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  transport::SegmentId segment() const { return segment_; }

  // --- Called by the fabric with news of other hosts. On an empty stack. ---

  // A transport was added or removed.
  void transports_changed() { changed(); }
  // Takes over this segment's part of `view`. Connections whose peer moved or became reachable continue at
  // once.
  void set_view(const View& view);
  // Sets the rule of a segment that no view describes: the one that is local to this daemon.
  void set_native(std::optional<NativeRule> rule);
  // Paths that had no room may have some now.
  void paths_ready();
  // Messages that were sent to `host` and not answered may be lost.
  void paths_restored(transport::HostId host, Instant now);

  // Whether a message from `host`, from `source` to `destination`, may come in, and at which port.
  struct Admission {
    transport::Delivery verdict;
    // Also set with kForeignSource if no other port is known to hold the source: the news may be late.
    Port* port;
    const transport::Transport* way;  // that messages back to the source take now; null: none
  };
  Admission admit(transport::HostId host, const verbs::Gid& source, const verbs::Gid& destination) const;

  // The port that a message from another shard of this host is for. Null: the shard does not hold the source,
  // or this one does not hold the destination.
  Port* admit(transport::ShardNumber from, const verbs::Gid& source, const verbs::Gid& destination) const;
  // Messages that were sent to that shard and not answered may be lost: those to the port; nullopt: all.
  void paths_restored(transport::ShardNumber shard, std::optional<HostGids::PortNumber> port, Instant now);

  // Whether a packet from outside, to a NIC with that MAC, may come in, and at which port. If a port of the
  // cluster held the source GID until recently, it may still hold it, so the packet is forged or stale.
  struct NativeAdmission {
    transport::Entry verdict;
    Port* port;  // null unless kAdmitted
  };
  NativeAdmission admit_native(const verbs::Gid& source, const verbs::Gid& destination,
                               const Mac& destination_mac) const;

  // --- Listings ---

  // The path of a message from `port` to `gid` now; null: from a port with all rights.
  PathInfo path_to(const verbs::Gid& gid, const Port* port = nullptr) const;
  // The kind of that path only, for frequent calls. Allocates nothing.
  PathKind kind_to(const verbs::Gid& gid, const Port* port = nullptr) const;
  // The shard of this host that serves the adapter with that GID. Empty: no adapter of this host holds it.
  std::optional<transport::ShardNumber> shard_of(const verbs::Gid& gid) const;

  struct Holder {
    verbs::Gid gid;
    std::string port;
  };
  // Every GID that a port of this shard holds, with that port, sorted by GID.
  std::vector<Holder> directory() const;

  // The name of the host to which `port` has lost `gid`; null: it has not lost it.
  const std::string* lost_to(const Port& port, const verbs::Gid& gid) const;

  // Counts the GIDs that a port wanted while another port held them, on this or another host.
  std::uint64_t duplicates_refused() const { return duplicates_refused_; }
  // Counts the GIDs that a port wanted and that are reserved for another port (reservations.h).
  std::uint64_t foreign_refused() const { return foreign_refused_; }
  // How often a bound GID was lost to another host.
  std::uint64_t gids_lost() const { return gids_lost_; }

 private:
  friend class Port;

  struct Found {
    transport::Transport* transport;  // null: `dropped` says why
    transport::Place place;
    DropReason dropped;
  };
  Found find(const verbs::Gid& gid, const Port* from) const;
  Found find_native(const verbs::Gid& gid, const Port* from) const;
  // Empty: `from` may treat the GID as a native endpoint. Otherwise why not, one clause.
  std::string_view why_not_native(const verbs::Gid& gid, const Port* from) const;
  struct Binding {
    Port* port;  // borrowed: it unbinds before it is destroyed
    bool is_lost;
    // How many engines have it bound: one, or two while one takes over from the other.
    std::uint32_t engines;
  };
  bool is_bound(const Port& port, const verbs::Gid& gid) const;
  // Whether the port has it bound and has not lost it.
  bool holds(const Port& port, const verbs::Gid& gid) const;
  // The port of another shard of this host that has it bound; it may have lost it (Reach::kLost).
  std::optional<HostGids::Holder> sibling_port(const verbs::Gid& gid) const;
  // The same, if it has not lost it.
  std::optional<HostGids::Holder> sibling_holder(const verbs::Gid& gid) const;
  static DropReason why_dropped(HostGids::Reach reach);
  // Tells the other shards what has become of the port's GIDs.
  void tell_reach(const Port& port);
  void look_for_lost();
  static void report_lost(const verbs::Gid& gid, const Binding& binding, const std::string* host);

  enum class Claim : std::uint8_t {
    kNew,
    kArrives,  // another host held it for the same VM
    kFollows,  // the port's predecessor holds it, on another shard of this host (Port::follow())
  };
  // True if `port` holds `gid` afterwards. It may have held it before, for another engine.
  bool bind(Port& port, const verbs::Gid& gid, Claim claim = Claim::kNew);
  // bind() with kFollows: only on this shard. The host's table names the predecessor until hand_over().
  bool bind_after_predecessor(Port& port, const verbs::Gid& gid);
  // Tells the observer which GIDs have come to this shard with the port.
  void tell_moved(const Port& port);
  // Does nothing unless the port has it bound. Each bind needs one unbind.
  void unbind(Port& port, const verbs::Gid& gid);
  void unbind_all(Port& port);
  void release(const Port& port, const verbs::Gid& gid);
  // Another shard's port of the same adapter has the port's GIDs from now on. Both are stopped. The observer
  // is told nothing, because the host still holds them. Allocates nothing.
  void hand_over(const Port& port, const HostGids::Holder& to);
  // Whether the GID's VM is silent for a while only: it is moving, here or between other hosts, or is stopped
  // for that; or its host's daemon has stopped and is expected back, because the view still has a path there;
  // or the connections to its host are just being made.
  bool is_back_soon(const verbs::Gid& gid, Instant now) const;
  // The number of the host where messages for the GID go; 0: this one; nullopt: no host of the cluster.
  std::optional<verbs::PeerPlace> place_of(const verbs::Gid& gid) const;
  // The port's GIDs now belong to another host, whose news may come later.
  void note_departure(const Port& port);
  void changed() { generation_.fetch_add(1, std::memory_order_release); }
  // The port was stopped. Its peers on this host send again what they sent to it meanwhile, because that was
  // lost; those on other shards do so when they have the news. Returns the number of QPs that were checked
  // here. On an empty stack.
  std::uint64_t works_again(const Port& port);
  void refuse(const Port& port, const verbs::Gid& gid, const std::string& why);
  // Visits the engines behind all attached ports that are not stopped. A stopped engine could only send
  // messages that are lost, and it checks everything when it continues. Allocates nothing: callers have
  // destructors and news that come only once above them.
  template <typename Visit>
  void each_engine(Visit visit);

  const transport::SegmentId segment_;
  const Transports& transports_;
  HostGids& host_;
  const transport::ShardNumber shard_;
  std::atomic<std::uint64_t>& generation_;
  FabricObserver* const observer_;
  std::unordered_map<verbs::Gid, Binding, verbs::GidHash> holders_;
  std::vector<Port*> ports_;  // borrowed: a port removes itself before it is destroyed
  RemoteDirectory remote_;
  Reservations reservations_;
  std::optional<NativeRule> native_;
  std::unordered_map<verbs::Gid, Instant, verbs::GidHash> departed_;  // until when a GID counts as departed
  std::uint64_t duplicates_refused_ = 0;
  std::uint64_t foreign_refused_ = 0;
  std::uint64_t gids_lost_ = 0;
  bool looks_again_ = false;  // whether the next view must check for lost GIDs even if it is unchanged
  const Clock& clock_;
  log::LogLimiter duplicate_log_;  // limited, because guests decide what they bind and how often they try
};

}  // namespace pvrdma::fabric
