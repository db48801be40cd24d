// The tests' clock: its time is whatever the test last set.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace pvrdma::test {

// Thread: any; one thread at a time moves it.
class ManualClock final : public Clock {
 public:
  // Each read moves the clock on by `per_read`.
  explicit ManualClock(Duration per_read = Duration{0}) : per_read_(per_read) {}

  Instant now() const override {
    ++reads_;
    return Instant{Duration(nanoseconds_.fetch_add(per_read_.count()))};
  }
  void set(Instant now) { nanoseconds_ = now.since_start.count(); }
  void advance(Duration by) { nanoseconds_ += by.count(); }

  std::uint64_t reads() const { return reads_; }

 private:
  const Duration per_read_;
  // Not near zero: a time limit that counts from the start of the clock has passed.
  mutable std::atomic<Duration::rep> nanoseconds_{Duration(std::chrono::seconds(100)).count()};
  mutable std::atomic<std::uint64_t> reads_{0};
};

}  // namespace pvrdma::test
