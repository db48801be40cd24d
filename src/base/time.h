// Time is an argument of the engine's functions; the engine never reads a clock. Only the shard's loop and
// main() do.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>

namespace pvrdma {

using Duration = std::chrono::nanoseconds;

constexpr std::uint64_t microseconds_of(Duration duration) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

// A point on the monotonic clock (or a simulation's own clock).
struct Instant {
  Duration since_start{0};

  static constexpr Instant never() { return Instant{Duration::max()}; }
  static Instant now() { return Instant{std::chrono::steady_clock::now().time_since_epoch()}; }

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant t, Duration d) { return Instant{t.since_start + d}; }
  friend constexpr Duration operator-(Instant a, Instant b) { return a.since_start - b.since_start; }
};

// How a thread has spent its time so far.
struct ThreadTimes {
  struct OffCore {
    Duration waited{0};        // ready to run, for a core
    std::uint64_t sleeps = 0;  // how often it gave its core up to wait for something else
  };
  Duration ran{0};                  // on a core
  std::optional<OffCore> off_core;  // empty: it was not asked for, or is not known
};

// The clock that a shard reads. Simulations have their own. Thread: shard-owned.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
  // The CPU time that the calling thread has used so far. It is a system call.
  virtual Duration thread_cpu() const = 0;
  // Of the calling thread. It is several system calls.
  virtual ThreadTimes thread_times() const { return {.ran = thread_cpu()}; }
};

class SteadyClock final : public Clock {
 public:
  Instant now() const override { return Instant::now(); }
  Duration thread_cpu() const override {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + Duration(used.tv_nsec);
  }
  ThreadTimes thread_times() const override;
};

}  // namespace pvrdma
