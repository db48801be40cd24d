#include "shard/adaptive_spin.h"

#include <algorithm>

namespace pvrdma::shard {

void AdaptiveSpin::spin_paid() {
  if (!spins_) return;
  misses_ = 0;
  short_sleeps_wanted_ = kShortSleepsFirst;
}

void AdaptiveSpin::slept(Duration idle) {
  if (longest_ == Duration{0}) return;
  if (spins_) {
    if (++misses_ < kMissesMax) return;
    spins_ = false;
    short_sleeps_ = 0;
    short_sleeps_wanted_ = std::min(short_sleeps_wanted_ * 2, kShortSleepsMax);
    return;
  }
  if (idle / kShortFactor > longest_) {
    short_sleeps_ = 0;
    return;
  }
  if (++short_sleeps_ < short_sleeps_wanted_) return;
  spins_ = true;
  misses_ = 0;
}

}  // namespace pvrdma::shard
