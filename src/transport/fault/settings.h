// The kinds of injected faults, their rates and counters, and the dice that decide. Thread: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "base/time.h"

namespace pvrdma::transport {

// The rate of each fault, per million messages or frames. Each fault is decided independently. All are off by
// default.
struct FaultSettings {
  std::uint32_t drop_ppm = 0;
  std::uint32_t duplicate_ppm = 0;  // a copy is sent later
  std::uint32_t delay_ppm = 0;      // late, together with everything after it on the path
  std::uint32_t reorder_ppm = 0;    // late alone: later messages overtake it
  std::uint32_t corrupt_ppm = 0;
  Duration late_min{0};
  Duration late_max = std::chrono::milliseconds(1);
  std::uint32_t refuse_ppm = 0;  // of room() calls; room() then returns 0 for up to refusal_max
  Duration refusal_max = std::chrono::milliseconds(1);
};

// How often each fault happened.
struct FaultCounters {
  std::uint64_t messages = 0;  // all messages, including dropped ones
  std::uint64_t dropped = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t delayed = 0;  // including those that waited behind a delayed one
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t refused = 0;     // room() calls
  std::uint64_t no_copy = 0;     // not delayed or duplicated, because no place for a copy was free
  std::uint64_t late_lost = 0;   // late requests or frames that were due when there was no room
  std::uint64_t forgotten = 0;   // dropped because their engine was destroyed
  std::uint64_t bare_paths = 0;  // opened without faults because the pool was empty
};

namespace fault {

// Random decisions. The same seed and calls give the same results.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  bool chance(std::uint32_t ppm) { return ppm != 0 && random_() % 1'000'000 < ppm; }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  // A random duration up to `most`; 0 if `most` is negative.
  Duration up_to(Duration most) {
    return Duration(static_cast<Duration::rep>(
        below(static_cast<std::uint64_t>(std::max(most, Duration{0}).count()) + 1)));
  }
  // When a late message is due.
  Instant late(const FaultSettings& settings, Instant now) {
    return now + settings.late_min + up_to(settings.late_max - settings.late_min);
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace fault

}  // namespace pvrdma::transport
