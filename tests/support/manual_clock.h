// The tests' clock. The test sets its time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace pvrdma::test {

// Thread: any; one thread at a time moves it.
class ManualClock final : public Clock {
 public:
  // Each read advances the clock by `per_read`.
  explicit ManualClock(Duration per_read = Duration{0}) : per_read_(per_read) {}

  Instant now() const override {
    ++reads_;
    return Instant{Duration(nanoseconds_.fetch_add(per_read_.count()))};
  }
  Duration thread_cpu() const override {
    ++cpu_reads_;
    return Duration(cpu_nanoseconds_.load());
  }
  ThreadTimes thread_times() const override {
    ThreadTimes times{.ran = thread_cpu(), .off_core = {}};
    if (!loses_count_) times.off_core = {.waited = Duration(waited_nanoseconds_.load()), .sleeps = sleeps_};
    return times;
  }

  void set(Instant now) { nanoseconds_ = now.since_start.count(); }
  void advance(Duration by) { nanoseconds_ += by.count(); }
  // The thread slept, and the time advanced.
  void sleep(Duration by) {
    advance(by);
    ++sleeps_;
  }
  // The thread waited for a core.
  void wait_for_core(Duration by) {
    advance(by);
    waited_nanoseconds_ += by.count();
  }
  // From now on only the CPU time of the thread is known; or all again.
  void lose_count(bool lost) { loses_count_ = lost; }
  // The thread worked: its CPU time advances with the time.
  void work(Duration by) {
    advance(by);
    cpu_nanoseconds_ += by.count();
  }

  std::uint64_t reads() const { return reads_; }          // of the time
  std::uint64_t cpu_reads() const { return cpu_reads_; }  // of the CPU time

 private:
  const Duration per_read_;
  // Begins at 100 s, so that time limits that count from the start of the clock have passed.
  mutable std::atomic<Duration::rep> nanoseconds_{Duration(std::chrono::seconds(100)).count()};
  std::atomic<Duration::rep> cpu_nanoseconds_{0};
  std::atomic<Duration::rep> waited_nanoseconds_{0};
  std::atomic<std::uint64_t> sleeps_{0};
  std::atomic<bool> loses_count_{false};
  mutable std::atomic<std::uint64_t> reads_{0};
  mutable std::atomic<std::uint64_t> cpu_reads_{0};
};

}  // namespace pvrdma::test
