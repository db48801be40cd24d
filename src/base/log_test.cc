#include "base/log.h"

#include <gtest/gtest.h>

namespace pvrdma::log {
namespace {

using namespace std::chrono_literals;

TEST(LogLimiter, LetsTheBurstThroughThenOneLinePerInterval) {
  LogLimiter limiter(3, 1s);
  const Instant start{100s};
  EXPECT_TRUE(limiter.allow(start));
  EXPECT_TRUE(limiter.allow(start));
  EXPECT_TRUE(limiter.allow(start));
  EXPECT_FALSE(limiter.allow(start));
  EXPECT_FALSE(limiter.allow(start + 999ms));
  EXPECT_TRUE(limiter.allow(start + 1001ms));
  EXPECT_EQ(limiter.suppressed(), 2U);
  EXPECT_FALSE(limiter.allow(start + 1002ms));
}

TEST(LogLimiter, NeverSavesUpMoreThanTheBurst) {
  LogLimiter limiter(2, 1s);
  EXPECT_TRUE(limiter.allow(Instant{1000s}));
  EXPECT_TRUE(limiter.allow(Instant{2000s}));
  EXPECT_TRUE(limiter.allow(Instant{2000s}));
  EXPECT_FALSE(limiter.allow(Instant{2000s}));
}

}  // namespace
}  // namespace pvrdma::log
