// RateLimit: limits a rate per second, with bursts after a pause (kBurst).
//
// It refuses nothing: a client over its rate waits (held_until()) until the time has paid for what it took.
// It never waits longer than kLongestWait, because a vCPU may wait for the answer, and its VMM gives up after
// 5 s (docs/device.md 8.9). Sans clock. take() neither divides nor allocates. Thread: shard-owned.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time.h"
#include "vocabulary/budgets.h"

namespace pvrdma::device {

struct SavedRate;

class RateLimit {
 public:
  static constexpr Duration kBurst = std::chrono::seconds(2);
  static constexpr Duration kLongestWait = std::chrono::seconds(1);
  static constexpr Duration kSecondForgotten = std::chrono::seconds(2);  // after the second's beginning

  // kNoBudget: no limit.
  explicit RateLimit(std::uint64_t per_second)
      : price_(per_second == kNoBudget ? 0 : static_cast<std::int64_t>(kSecond / per_second)) {}

  // True: these have put it over its rate.
  bool take(std::uint32_t count, Instant now) {
    if (now - second_began_ >= std::chrono::seconds(1)) [[unlikely]]
      begin_second(now);
    in_second_ += count;
    const bool was_over = paid_at_ > now;
    paid_at_ =
        std::min(std::max(paid_at_, Instant{now.since_start - kBurst}) + price_ * count, now + kLongestWait);
    over_ = paid_at_ > now;
    if (!over_ || was_over) [[likely]]
      return false;
    ++slowed_;
    return true;
  }

  // When the taken ones are paid for; Instant{} if the last take() was within the rate.
  Instant held_until() const { return over_ ? paid_at_ : Instant{}; }

  // Without the rate itself, which this host configures.
  SavedRate save(Instant now) const;
  void restore(const SavedRate& saved, Instant now);

  std::uint64_t slowed() const { return slowed_; }
  // The number taken in the last whole second.
  std::uint64_t last_second(Instant now) const {
    const Duration age = now - second_began_;
    if (age >= kSecondForgotten) return 0;
    return age >= std::chrono::seconds(1) ? in_second_ : last_second_;
  }

 private:
  static constexpr std::uint64_t kSecond = 1'000'000'000;  // nanoseconds

  void begin_second(Instant now) {
    last_second_ = last_second(now);
    in_second_ = 0;
    second_began_ = now;
  }

  Duration price_;   // of one unit
  Instant paid_at_;  // when everything taken is paid for
  bool over_ = false;
  Instant second_began_;
  std::uint64_t in_second_ = 0;
  std::uint64_t last_second_ = 0;
  std::uint64_t slowed_ = 0;
};

}  // namespace pvrdma::device
