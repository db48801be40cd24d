#include "shard/turn_watch.h"

#include "base/events.h"

namespace pvrdma::shard {
namespace {

constexpr events::Subject kShard{events::Type::kShard};

double milliseconds(Duration time) {
  return static_cast<double>(time.count()) / 1e6;
}

}  // namespace

void TurnWatch::report(Instant now, Duration cpu) {
  const Duration turn = now - began_;
  ++long_turns_;
  long_turns_us_ += microseconds_of(turn);
  long_turns_cpu_us_ += microseconds_of(cpu);
  if (!limiter_.allow(now)) return;
  if (longest_ == Duration{0}) {
    events::tell(log::Level::kWarn, kShard,
                 "shard-{}: its adapters waited {:.1f} ms for one turn, in many small steps; the shard ran "
                 "{:.1f} ms{}",
                 shard_, milliseconds(turn), milliseconds(cpu), log::held_back(limiter_));
  } else {
    events::tell(log::Level::kWarn, kShard,
                 "shard-{}: its adapters waited {:.1f} ms for one turn, {:.1f} ms of them {}; the shard ran "
                 "{:.1f} ms{}",
                 shard_, milliseconds(turn), milliseconds(longest_), longest_name_, milliseconds(cpu),
                 log::held_back(limiter_));
  }
}

}  // namespace pvrdma::shard
