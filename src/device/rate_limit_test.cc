#include "device/rate_limit.h"

#include <gtest/gtest.h>

namespace pvrdma::device {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{100s};

TEST(RateLimit, HasABurstAndThenItsRate) {
  RateLimit rate(1000);
  for (int i = 0; i < 2000; ++i) ASSERT_FALSE(rate.take(1, kStart)) << i;
  EXPECT_EQ(rate.held_until(), Instant{});
  EXPECT_TRUE(rate.take(1, kStart));
  EXPECT_EQ(rate.held_until(), kStart + 1ms);
  EXPECT_EQ(rate.slowed(), 1u);
  std::uint64_t taken = 0;
  // A client that waits as told gets the full rate.
  for (Instant now = kStart; now < kStart + 3s; now = now + 100us) {
    if (now < rate.held_until()) continue;
    rate.take(1, now);
    ++taken;
  }
  EXPECT_NEAR(static_cast<double>(taken), 3000, 2);
}

TEST(RateLimit, IsToldOnceEachTimeItIsExceeded) {
  RateLimit rate(1000);
  EXPECT_TRUE(rate.take(2010, kStart));
  EXPECT_FALSE(rate.take(1, kStart)) << "it was over before";
  EXPECT_FALSE(rate.take(1, kStart + 1s));
  EXPECT_EQ(rate.held_until(), Instant{});
  EXPECT_EQ(rate.slowed(), 1u);
}

TEST(RateLimit, NobodyWaitsLongerThanAVmmBears) {
  RateLimit rate(1000);
  rate.take(1'000'000, kStart);
  EXPECT_EQ(rate.held_until(), kStart + RateLimit::kLongestWait);
}

TEST(RateLimit, NoBudgetIsNeverExceeded) {
  RateLimit rate(kNoBudget);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(rate.take(4'000'000'000, kStart));
  EXPECT_EQ(rate.held_until(), Instant{});
}

TEST(RateLimit, TellsTheLastWholeSecond) {
  RateLimit rate(1000);
  rate.take(5, kStart);
  EXPECT_EQ(rate.last_second(kStart), 0u);
  rate.take(2, kStart + 500ms);
  EXPECT_EQ(rate.last_second(kStart + 1s), 7u);
  rate.take(1, kStart + 1100ms);
  EXPECT_EQ(rate.last_second(kStart + 1200ms), 7u);
  EXPECT_EQ(rate.last_second(kStart + 4s), 0u);
}

}  // namespace
}  // namespace pvrdma::device
