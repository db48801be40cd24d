#include "shard/turn_watch.h"

#include <fmt/core.h>

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
  const std::string where = longest_ == Duration{0}
                                ? "in many small steps"
                                : fmt::format("{:.1f} ms of them {}", milliseconds(longest_), longest_name_);
  log::warn("shard: all adapters waited {:.1f} ms for one turn, {}{}", milliseconds(turn), where,
            log::held_back(limiter_));
}

}  // namespace pvrdma::shard
