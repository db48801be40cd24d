// The paths over which the conformance suite runs. A new kind of path is one entry of all_paths() and a
// HostPath.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/time.h"
#include "conformance/ethernet.h"
#include "fabric/fabric.h"
#include "shard/loop.h"
#include "transport/fault/fault.h"
#include "transport/hca/fake_nic.h"
#include "transport/hca/fake_surroundings.h"
#include "transport/siblings/host_rings.h"
#include "transport/transport.h"
#include "vocabulary/doorbell_mode.h"

namespace pvrdma::conformance {

// The objects that a host's transport uses. All are borrowed.
struct Surroundings {
  shard::Loop& loop;
  const Clock& clock;
  fabric::Fabric& fabric;
  Ethernet& ethernet;
  transport::hca::FakeNetwork& nics;
  transport::hca::HostBook& book;
  const std::shared_ptr<transport::siblings::HostRings>& rings;  // between all shards
  std::uint32_t host;                                            // the host's index, from 0, or the shard's
};

inline constexpr transport::SegmentId kSegment{.dvs = 7, .vlan = 11};

inline transport::HostId host_id(std::uint32_t host) {
  return transport::HostId(host + 1);
}

// One host's transport of the kind under test, with the objects that it needs.
class HostPath {
 public:
  virtual ~HostPath() = default;
  virtual transport::Transport& transport() = 0;
  // Called when all hosts are made. `hosts` is their number, including this one.
  virtual void meet(std::uint32_t /*hosts*/) {}
  // From now on there is no room for requests, until unblock(). Only with `can_be_blocked`.
  virtual void block() {}
  virtual void unblock() {}
  // Ends the connections that other hosts have dialled to this one, as a broken network would, and returns
  // their number. Only with `can_be_cut`.
  virtual int cut() { return 0; }
  // How many requests' payload the transport has fetched from other hosts' guests. Only with `lends`.
  virtual std::uint64_t fetched() const { return 0; }
  // When the transport next has something to do by itself.
  virtual Instant next_deadline() const { return Instant::never(); }
};

struct Capabilities {
  // Whether each adapter has a fabric of its own.
  bool is_apart() const { return between_hosts || between_shards; }

  bool between_hosts = false;      // its two ends are on different hosts; otherwise on the same one
  bool between_shards = false;     // its two ends are on different shards of one host
  bool between_strangers = false;  // each host's ports are native endpoints to the others
  bool waits_in_kernel = false;    // messages in flight may be in the kernel, outside the test's clock
  bool can_be_cut = false;
  bool can_be_blocked = false;
  bool may_lose_datagrams = true;
  bool lends = false;  // long payload is fetched, once two VMs have exchanged messages for a while
};

struct PathUnderTest {
  std::string name;
  std::unique_ptr<HostPath> (*make)(const Surroundings& around);
  Capabilities can;
  bool faulty = false;                              // the transport is inside a fault decorator
  Weather weather{};                                // of the Ethernet, for paths over it
  DoorbellMode doorbells = DoorbellMode::kTrapped;  // of all adapters
};

inline std::ostream& operator<<(std::ostream& out, const PathUnderTest& path) {
  return out << path.name;
}

const std::vector<PathUnderTest>& all_paths();

// The faults that a fault decorator injects in the suite, unless a case sets others.
transport::FaultSettings ordinary_faults();

}  // namespace pvrdma::conformance
