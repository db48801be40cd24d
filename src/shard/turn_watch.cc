#include "shard/turn_watch.h"

#include "base/events.h"

namespace pvrdma::shard {
namespace {

constexpr events::Subject kShard{events::Type::kShard};

double milliseconds(Duration time) {
  return static_cast<double>(time.count()) / 1e6;
}

// How long the thread may have waited for a core. One that has not slept either ran or waited: for a core of
// this machine, or where this machine is virtual, for one of its host, which the kernel does not count. The
// same is assumed of a thread of which only the CPU time is known.
Duration idle_in(Duration turn, const ThreadTimes& before, const ThreadTimes& after) {
  const bool slept = before.off_core && after.off_core && before.off_core->sleeps != after.off_core->sleeps;
  const Duration idle =
      slept ? after.off_core->waited - before.off_core->waited : turn - (after.ran - before.ran);
  return std::clamp(idle, Duration{0}, turn);
}

}  // namespace

void TurnWatch::report(Instant now) {
  const Duration turn = now - began_;
  const ThreadTimes after = times();
  const Duration cpu = std::clamp(after.ran - times_.ran, Duration{0}, turn);
  const Blame::Blamed worst = blame_.end_long_turn(now, idle_in(turn, times_, after));
  if (worst.party != nullptr) {
    name_longest(worst.took, [&] { return "because of " + worst.party->what(); });
  } else {
    ++long_turns_unblamed_;
  }
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
