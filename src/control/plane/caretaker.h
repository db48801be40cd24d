// Caretaker: decides what becomes of the store's history. Stores that keep every revision grow until they
// refuse writes (etcd's quota, 2 GB unless it says otherwise), and etcd does not forget by itself unless it
// is told to. One host, the one that lives and whose name sorts first, forgets what is older than kKeep, or
// sooner when there are many revisions.
//
// Two hosts that both think they are the one do no harm: forgetting twice is forgetting once.
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
  static constexpr std::uint64_t kRevisionsMax = 5000;  // since the last time, before it is kKeep

  bool is_due(Instant now) const { return now >= next_look_; }

  // The store did not report its revision.
  void put_off(Instant now) { next_look_ = now + kLookPause; }
  // The store is at `revision`. Returns the revision before which the store is to forget all; nullopt:
  // nothing to forget now.
  std::optional<std::uint64_t> look(std::uint64_t revision, Instant now);

 private:
  struct Seen {
    Instant at;
    std::uint64_t revision;
  };

  Instant next_look_{};
  std::deque<Seen> seen_;  // at most kKeep / kLookPause and one
  std::uint64_t forgotten_ = 0;
};

// The host that trims the store's history. Empty: no host is alive.
std::string caretaker_of(const Inventory& inventory);

}  // namespace pvrdma::control
