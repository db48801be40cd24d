#include "shard/turn_watch.h"

namespace pvrdma::shard {
namespace {

double milliseconds(Duration time) {
  return static_cast<double>(time.count()) / 1e6;
}

}  // namespace

void TurnWatch::report(Instant now) {
  const Duration turn = now - began_;
  ++long_turns_;
  long_turns_us_ += static_cast<std::uint64_t>(turn / std::chrono::microseconds(1));
  if (!limiter_.allow(now)) return;
  if (longest_ == Duration{0}) {
    log::warn("shard: all adapters waited {:.1f} ms for one turn, in many small steps{}", milliseconds(turn),
              log::held_back(limiter_));
  } else {
    log::warn("shard: all adapters waited {:.1f} ms for one turn, {:.1f} ms of them {}{}", milliseconds(turn),
              milliseconds(longest_), longest_name_, log::held_back(limiter_));
  }
}

}  // namespace pvrdma::shard
