// AdaptiveSpin: how long a shard spins after work before it sleeps.
//
// A spin that work ends has saved a wake-up. A spin that ends in a sleep has wasted CPU time. So when several
// spins in a row end without work, spinning stops. It is tried again after several short sleeps in a row. A
// sleep is short if it lasts at most several times the longest spin: its measured length contains this
// shard's wake-up and often the peer's, which spinning would have saved. Every failed try doubles the number
// of short sleeps that the next try needs, so work at just the wrong pace costs little.
//
// Thread: owned by one thread (the shard).
#pragma once

#include <cstdint>

#include "base/time.h"

namespace pvrdma::shard {

class AdaptiveSpin {
 public:
  static constexpr std::uint32_t kMissesMax = 4;
  static constexpr std::uint32_t kShortSleepsFirst = 2;
  static constexpr std::uint32_t kShortSleepsMax = 1024;
  static constexpr int kShortFactor = 4;  // the longest short sleep, in longest spins

  // 0: never spins. Duration::max(): never sleeps.
  explicit AdaptiveSpin(Duration longest) : longest_(longest) {}

  // How long the shard spins, counted from the last work.
  Duration window() const { return spins_ ? longest_ : Duration{0}; }

  // Work came while the shard was spinning.
  void spin_paid();
  // Work came while the shard was asleep, `idle` after the work before.
  void slept(Duration idle);

 private:
  const Duration longest_;
  bool spins_ = true;
  std::uint32_t misses_ = 0;        // in a row, while it spins
  std::uint32_t short_sleeps_ = 0;  // in a row, while it does not spin
  std::uint32_t short_sleeps_wanted_ = kShortSleepsFirst;
};

}  // namespace pvrdma::shard
