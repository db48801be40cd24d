// Caretaker: decides which old revisions the store is told to forget. A store that keeps every revision grows
// until it refuses writes (etcd's quota, 2 GB by default), and etcd does not forget by default. One host does
// it: of the hosts that are alive, the one whose name sorts first. It makes the store forget revisions older
// than kKeep, or younger ones if there are many.
//
// It is harmless if two hosts both do it for a while.
//
// Pure: time is an argument. Thread: as its owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/time.h"
#include "control/model/inventory.h"

namespace pvrdma::control {

class Caretaker {
 public:
  static constexpr Duration kLookPause = std::chrono::seconds(10);
  static constexpr Duration kKeep = std::chrono::minutes(5);
  static constexpr std::uint64_t kRevisionsMax = 5000;  // since the last time; more do not wait for kKeep

  bool is_due(Instant now) const { return now >= next_look_; }

  // Delays the next look, because the store did not report its revision.
  void put_off(Instant now) { next_look_ = now + kLookPause; }
  // The store is at `revision`. Returns the revision before which the store must forget everything. Nullopt:
  // there is nothing to forget now.
  std::optional<std::uint64_t> look(std::uint64_t revision, Instant now);

 private:
  struct Seen {
    Instant at;
    std::uint64_t revision;
  };

  Instant next_look_{};
  std::deque<Seen> seen_;  // at most kKeep / kLookPause + 1
  std::uint64_t forgotten_ = 0;
};

// The host that makes the store forget old revisions. Empty: no host is alive.
std::string caretaker_of(const Inventory& inventory);

}  // namespace pvrdma::control
