// RateLimit: how many a second, and after a pause as many at once as kBurst brings.
//
// Nothing is refused: whoever is over its rate waits (held_until()) while time pays what it took, but never
// longer than kLongestWait, since a vCPU may wait for the answer and its VMM gives up after 5 s
// (docs/device.md 8.9). Sans clock; no division and no allocation in take(). Thread: shard-owned.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/budgets.h"
#include "base/time.h"

namespace pvrdma::device {

struct SavedRate;

class RateLimit {
 public:
  static constexpr Duration kBurst = std::chrono::seconds(2);
  static constexpr Duration kLongestWait = std::chrono::seconds(1);
  static constexpr Duration kSecondForgotten = std::chrono::seconds(2);  // after its begin

  // kNoBudget: never over.
  explicit RateLimit(std::uint64_t per_second)
      : price_(per_second == kNoBudget ? 0 : static_cast<std::int64_t>(kSecond / per_second)) {}

  // True: with these it is over its rate, and was not before.
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

  // When it is paid for; Instant{} while the last take() was within the rate.
  Instant held_until() const { return over_ ? paid_at_ : Instant{}; }

  // The rate itself is the host's.
  SavedRate save(Instant now) const;
  void restore(const SavedRate& saved, Instant now);

  std::uint64_t slowed() const { return slowed_; }
  // How many there were in the last whole second.
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

  Duration price_;   // of one
  Instant paid_at_;  // all that was taken
  bool over_ = false;
  Instant second_began_;
  std::uint64_t in_second_ = 0;
  std::uint64_t last_second_ = 0;
  std::uint64_t slowed_ = 0;
};

}  // namespace pvrdma::device
