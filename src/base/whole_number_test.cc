#include "base/whole_number.h"

#include <cstdint>
#include <gtest/gtest.h>

namespace pvrdma {
namespace {

TEST(WholeNumber, TakesTheWholeText) {
  EXPECT_EQ(whole_number<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(whole_number<std::uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(whole_number<std::int64_t>("-7"), -7);
  EXPECT_EQ(whole_number<std::uint32_t>("007"), 7U);
}

TEST(WholeNumber, TakesNothingElse) {
  for (const char* const text : {"", " 1", "1 ", "+1", "-1", "0x1", "1.0", "65536", "1\n"})
    EXPECT_EQ(whole_number<std::uint16_t>(text), std::nullopt) << text;
}

}  // namespace
}  // namespace pvrdma
