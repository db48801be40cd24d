// Switch: one segment of a distributed switch as this host sees it: the ports here, the directory that says
// which of them holds a GID, and what other hosts hold (remote_directory.h).
//
// Generation: a number that changes with everything that can change the answer to "where does this GID go?":
// a GID bound or unbound, a port attached or detached, a transport that came or went, here or elsewhere. A
// path of the current generation is right as it is; any other is opened anew. That is what spares a look-up
// per message and makes a dangling path impossible to follow.
//
// A GID that a port here has bound and another host holds as well, as the store says, is lost: two hosts had
// bound it before either knew of the other, and the other's record came first. Its port speaks and is spoken
// to under that name no more, although its guest still has it bound, until the other one lets go.
//
// A message to a GID nobody holds is dropped and counted by the sending port. The sender's timeout and
// retries turn that into what InfiniBand gives for a dead peer, RETRY_EXC_ERR.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "fabric/fabric_observer.h"
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
  // `observer` may be null. All borrowed; they outlive the switch.
  Switch(transport::SegmentId segment, const Transports& transports, const Clock& clock,
         FabricObserver* observer = nullptr);
  ~Switch();  // no port is left
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  transport::SegmentId segment() const { return segment_; }

  // --- What the fabric tells it of other hosts. On an empty stack. ---

  // A transport came or went.
  void transports_changed() { changed(); }
  // Takes over this segment's part of `view`. Connections whose peer moved or became reachable go on at once.
  void set_view(const View& view);
  // The same for a segment that no view tells of: this daemon's own.
  void set_native(std::optional<NativeRule> rule);
  // Paths that had no room may have some.
  void paths_ready();
  // What was sent to `host` and not answered may be lost.
  void paths_restored(transport::HostId host, Instant now);

  // A message from `host`, `source` to `destination`: may it come in, and at which port?
  struct Admission {
    transport::Delivery verdict;
    Port* port;  // also with kForeignSource if nobody holds the source: news of it may be on its way
    const transport::Transport* way;  // by which messages go back to the source now; null: none
  };
  Admission admit(transport::HostId host, const verbs::Gid& source, const verbs::Gid& destination) const;

  // A packet from outside, to a NIC with that address: may it come in, and at which port? A port of the
  // cluster that held the source GID a moment ago may hold it still: its packet is forged, or stale.
  struct NativeAdmission {
    transport::Entry verdict;
    Port* port;  // null unless kAdmitted
  };
  NativeAdmission admit_native(const verbs::Gid& source, const verbs::Gid& destination,
                               const Mac& destination_mac) const;

  // --- Listings ---

  // Which way a message to `gid` would go now from `port`; null: from one with all rights.
  PathInfo path_to(const verbs::Gid& gid, const Port* port = nullptr) const;
  // Its kind alone, for who asks often. Allocates nothing.
  PathKind kind_to(const verbs::Gid& gid, const Port* port = nullptr) const;

  struct Holder {
    verbs::Gid gid;
    std::string port;
  };
  // Every GID that a port here holds and that port, in GID order.
  std::vector<Holder> directory() const;

  // The name of the host to which `port` has lost `gid`; null: it has not.
  const std::string* lost_to(const Port& port, const verbs::Gid& gid) const;

  // GIDs that a port wanted while another held them, here or on another host.
  std::uint64_t duplicates_refused() const { return duplicates_refused_; }
  // GIDs that a port wanted and that are another's, whoever holds them (reservations.h).
  std::uint64_t foreign_refused() const { return foreign_refused_; }
  // How often a bound GID was found to be another host's.
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
  // Empty: `from` may speak to it as to a native endpoint. Otherwise why not, one clause.
  std::string_view why_not_native(const verbs::Gid& gid, const Port* from) const;
  struct Binding {
    Port* port;  // borrowed: it unbinds before it dies
    bool is_lost;
    std::uint32_t engines;  // that have it bound: one, or two while one of them takes over from the other
  };
  bool is_bound(const Port& port, const verbs::Gid& gid) const;
  // Bound, and not lost.
  bool holds(const Port& port, const verbs::Gid& gid) const;
  void look_for_lost();
  static void report_lost(const verbs::Gid& gid, const Binding& binding, const std::string* host);

  enum class Claim : bool { kNew, kArrives };  // kArrives: other hosts held it for the same VM
  // True when `port` holds `gid` afterwards: newly, or already before, for another engine.
  bool bind(Port& port, const verbs::Gid& gid, Claim claim = Claim::kNew);
  // Nothing happens unless `port` holds it. It is unbound as often as it was bound.
  void unbind(Port& port, const verbs::Gid& gid);
  void unbind_all(Port& port);
  // The VM behind the GID is on its way, here or elsewhere, or stands meanwhile.
  bool is_on_its_way(const verbs::Gid& gid, Instant now) const;
  // The port's GIDs are another host's from now on, whose news may come later.
  void note_departure(const Port& port);
  void changed() { ++generation_; }
  // The port was stopped: what its peers here sent to it meanwhile is lost, and goes out again. How many QPs
  // were looked through. On an empty stack.
  std::uint64_t works_again(const Port& port);
  void refuse(const Port& port, const verbs::Gid& gid, const std::string& why);
  // The engines behind all attached ports but those that are stopped: what they would send now is lost, and
  // they look at everything when they go on.
  void each_engine(const std::function<void(verbs::Engine&)>& visit);

  const transport::SegmentId segment_;
  const Transports& transports_;
  FabricObserver* const observer_;
  std::unordered_map<verbs::Gid, Binding, verbs::GidHash> holders_;
  std::uint64_t generation_ = 1;  // 0 stands for "never opened" in a PathSlot
  std::vector<Port*> ports_;      // borrowed: they leave before they die
  RemoteDirectory remote_;
  Reservations reservations_;
  std::optional<NativeRule> native_;
  std::unordered_map<verbs::Gid, Instant, verbs::GidHash> departed_;  // until when they count as such
  std::uint64_t duplicates_refused_ = 0;
  std::uint64_t foreign_refused_ = 0;
  std::uint64_t gids_lost_ = 0;
  bool looks_again_ = false;  // for lost ones, at the next view, changed or not
  const Clock& clock_;
  log::LogLimiter duplicate_log_;  // guests decide what they bind, and how often they try
};

}  // namespace pvrdma::fabric
