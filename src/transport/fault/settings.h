// What injected faults are, how often they come about, and the dice that decide. Thread: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "base/time.h"

namespace pvrdma::transport {

// How many of a million messages, or frames, meet which fault; each is decided on its own. All off at first.
struct FaultSettings {
  std::uint32_t drop_ppm = 0;
  std::uint32_t duplicate_ppm = 0;  // once more, late
  std::uint32_t delay_ppm = 0;      // late, with all that follows on the path
  std::uint32_t reorder_ppm = 0;    // late alone: what follows overtakes it
  std::uint32_t corrupt_ppm = 0;
  Duration late_min{0};
  Duration late_max = std::chrono::milliseconds(1);
  std::uint32_t refuse_ppm = 0;  // of the questions for room; then nobody has any for up to refusal_max
  Duration refusal_max = std::chrono::milliseconds(1);
};

// How often which fault came about.
struct FaultCounters {
  std::uint64_t messages = 0;  // that came by, whatever became of them
  std::uint64_t dropped = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t delayed = 0;  // those that had to wait behind one included
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t refused = 0;     // questions for room
  std::uint64_t no_copy = 0;     // late or double in vain: no place for a copy
  std::uint64_t late_lost = 0;   // there was no room when a late request's or frame's time came
  std::uint64_t forgotten = 0;   // their engine went away
  std::uint64_t bare_paths = 0;  // opened without faults: the pool was empty
};

namespace fault {

// The same seed and questions give the same answers.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  bool chance(std::uint32_t ppm) { return ppm != 0 && random_() % 1'000'000 < ppm; }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  // 0 when `most` is negative.
  Duration up_to(Duration most) {
    return Duration(static_cast<Duration::rep>(
        below(static_cast<std::uint64_t>(std::max(most, Duration{0}).count()) + 1)));
  }
  // When what is late comes.
  Instant late(const FaultSettings& settings, Instant now) {
    return now + settings.late_min + up_to(settings.late_max - settings.late_min);
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace fault

}  // namespace pvrdma::transport
