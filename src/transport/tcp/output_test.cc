#include "transport/tcp/output.h"

#include <array>
#include <gtest/gtest.h>
#include <vector>

namespace pvrdma::transport::tcp {
namespace {

constexpr std::size_t kLarge = 1 << 20;
constexpr std::size_t kKept = 1 << 16;

TEST(Output, GivesALargeBufferBackWhenNothingWaitsInIt) {
  Output output;
  output.append(std::vector<std::byte>(kLarge));
  output.consume(kLarge - 1);
  output.give_back(kKept);
  EXPECT_GE(output.capacity(), kLarge) << "a byte waits";
  output.consume(1);
  output.give_back(output.capacity());
  EXPECT_GE(output.capacity(), kLarge) << "not larger than what may be kept";
  output.give_back(kKept);
  EXPECT_EQ(output.capacity(), 0U);
}

TEST(Output, IsUsedAgainAfterItGaveItsBufferBack) {
  Output output;
  output.append(std::vector<std::byte>(kLarge));
  output.consume(kLarge);
  output.give_back(kKept);
  const std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  output.append(bytes);
  ASSERT_EQ(output.unsent(), bytes.size());
  EXPECT_EQ(output.pending()[2], std::byte{3});
}

}  // namespace
}  // namespace pvrdma::transport::tcp
