#include "base/utc_text.h"

#include <gtest/gtest.h>

namespace pvrdma {
namespace {

TEST(UtcText, HasAFractionInItsUnit) {
  EXPECT_EQ(utc_text(0, TimeUnit::kSeconds), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_text(1'700'000'000'023, TimeUnit::kMilliseconds), "2023-11-14T22:13:20.023Z");
  EXPECT_EQ(utc_text(1'700'000'000'000'045, TimeUnit::kMicroseconds), "2023-11-14T22:13:20.000045Z");
}

TEST(UtcText, ATimeBeyondTheCalendarIsItsLast) {
  EXPECT_EQ(utc_text(UINT64_MAX, TimeUnit::kSeconds), "9999-12-31T23:59:59Z");
  EXPECT_EQ(utc_text(UINT64_MAX, TimeUnit::kMicroseconds), "9999-12-31T23:59:59.999999Z");
}

}  // namespace
}  // namespace pvrdma
