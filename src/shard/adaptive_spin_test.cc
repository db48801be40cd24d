#include "shard/adaptive_spin.h"

#include <gtest/gtest.h>

namespace pvrdma::shard {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLongest = 50us;

// Sleeps for `idle` until spinning begins again. Returns the number of sleeps.
std::uint32_t sleeps_until_spinning(AdaptiveSpin& spin, Duration idle) {
  std::uint32_t sleeps = 0;
  while (spin.window() == Duration{0} && sleeps < 10000) {
    spin.slept(idle);
    ++sleeps;
  }
  return sleeps;
}

void miss(AdaptiveSpin& spin, std::uint32_t times) {
  for (std::uint32_t i = 0; i < times; ++i) spin.slept(1s);
}

TEST(AdaptiveSpin, StopsAfterSeveralMissesInARow) {
  AdaptiveSpin spin(kLongest);
  EXPECT_EQ(spin.window(), kLongest);
  miss(spin, AdaptiveSpin::kMissesMax - 1);
  EXPECT_EQ(spin.window(), kLongest);
  spin.spin_paid();
  miss(spin, AdaptiveSpin::kMissesMax - 1);
  EXPECT_EQ(spin.window(), kLongest) << "a spin that paid forgives";
  miss(spin, 1);
  EXPECT_EQ(spin.window(), Duration{0});
}

TEST(AdaptiveSpin, BeginsAgainWhenSleepsGetShort) {
  AdaptiveSpin spin(kLongest);
  miss(spin, AdaptiveSpin::kMissesMax);
  miss(spin, 1000);
  EXPECT_EQ(spin.window(), Duration{0}) << "long sleeps change nothing";
  EXPECT_EQ(sleeps_until_spinning(spin, kLongest * AdaptiveSpin::kShortFactor), 4U);
  EXPECT_EQ(spin.window(), kLongest);
}

TEST(AdaptiveSpin, ShortSleepsCountInARowOnly) {
  AdaptiveSpin spin(kLongest);
  miss(spin, AdaptiveSpin::kMissesMax);
  for (int i = 0; i < 100; ++i) {
    spin.slept(10us);
    spin.slept(10us);
    spin.slept(10us);
    spin.slept(1ms);
  }
  EXPECT_EQ(spin.window(), Duration{0});
}

// If work always comes just after the spin, tries become rare. Work that comes in time makes them frequent
// again.
TEST(AdaptiveSpin, TriesLessOftenWhatDoesNotPay) {
  AdaptiveSpin spin(kLongest);
  std::uint32_t before = 0;
  for (int i = 0; i < 20; ++i) {
    miss(spin, AdaptiveSpin::kMissesMax);
    const std::uint32_t sleeps = sleeps_until_spinning(spin, 100us);
    EXPECT_GE(sleeps, before);
    EXPECT_LE(sleeps, AdaptiveSpin::kShortSleepsMax);
    before = sleeps;
  }
  EXPECT_EQ(before, AdaptiveSpin::kShortSleepsMax);
  spin.spin_paid();
  miss(spin, AdaptiveSpin::kMissesMax);
  EXPECT_EQ(sleeps_until_spinning(spin, 100us), 2 * AdaptiveSpin::kShortSleepsFirst);
}

TEST(AdaptiveSpin, NeverSpinsOrNeverSleepsWhenToldSo) {
  AdaptiveSpin never(Duration{0});
  EXPECT_EQ(never.window(), Duration{0});
  for (int i = 0; i < 100; ++i) never.slept(Duration{0});
  EXPECT_EQ(never.window(), Duration{0});
  EXPECT_EQ(AdaptiveSpin(Duration::max()).window(), Duration::max());
}

}  // namespace
}  // namespace pvrdma::shard
