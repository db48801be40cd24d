// Paths: what the conformance suite runs over. A new kind of path is one entry of all_paths() and the class
// behind it.
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
#include "transport/transport.h"
#include "vocabulary/doorbell_mode.h"

namespace pvrdma::conformance {

// What a host's transport is made from. All borrowed.
struct Surroundings {
  shard::Loop& loop;
  const Clock& clock;
  fabric::Fabric& fabric;
  Ethernet& ethernet;
  transport::hca::FakeNetwork& nics;
  transport::hca::HostBook& book;
  std::uint32_t host;  // its index, from 0
};

inline constexpr transport::SegmentId kSegment{.dvs = 7, .vlan = 11};

inline transport::HostId host_id(std::uint32_t host) {
  return transport::HostId(host + 1);
}

// One host's transport of the kind under test, with what it needs.
class HostPath {
 public:
  virtual ~HostPath() = default;
  virtual transport::Transport& transport() = 0;
  // The hosts to be reached, this one among them. When all of them have been made.
  virtual void meet(std::uint32_t /*hosts*/) {}
  // From now on there is no room for requests, until unblock(). With `can_be_blocked` only.
  virtual void block() {}
  virtual void unblock() {}
  // Ends the connections that other hosts have dialled to this one, as a broken network would; how many. With
  // `can_be_cut` only.
  virtual int cut() { return 0; }
  // How many requests' payload it has fetched from other hosts' guests. With `lends` only.
  virtual std::uint64_t fetched() const { return 0; }
  // When the transport has something to do by itself.
  virtual Instant next_deadline() const { return Instant::never(); }
};

struct Capabilities {
  bool between_hosts = false;      // its two ends are on different hosts; otherwise on one
  bool between_strangers = false;  // each host's ports are native endpoints to the others
  bool waits_in_kernel = false;    // messages are where no clock of the test's can see them
  bool can_be_cut = false;
  bool can_be_blocked = false;
  bool may_lose_datagrams = true;
  bool lends = false;  // long payload is fetched, once two VMs have spoken for a while
};

struct PathUnderTest {
  std::string name;
  std::unique_ptr<HostPath> (*make)(const Surroundings& around);
  Capabilities can;
  bool faulty = false;                              // inside a fault decorator
  Weather weather{};                                // of the Ethernet, for paths over it
  DoorbellMode doorbells = DoorbellMode::kTrapped;  // of all adapters
};

inline std::ostream& operator<<(std::ostream& out, const PathUnderTest& path) {
  return out << path.name;
}

const std::vector<PathUnderTest>& all_paths();

// What a fault decorator does to everything that passes in the suite, unless a case says otherwise.
transport::FaultSettings ordinary_faults();

}  // namespace pvrdma::conformance
