#include "standin/event_channel.h"

#include <array>
#include <gtest/gtest.h>

namespace pvrdma::standin {
namespace {

TEST(EventChannelTest, EachEventIsOneDatagram) {
  auto ends = EventChannel::create();
  ASSERT_TRUE(ends);
  const std::array first{std::byte{1}, std::byte{2}};
  const std::array second{std::byte{3}};
  EXPECT_TRUE(ends->channel->put(first));
  EXPECT_TRUE(ends->channel->put(second));
  std::array<std::byte, 8> read{};
  EXPECT_EQ(::read(ends->program.get(), read.data(), read.size()), 2);
  EXPECT_EQ(::read(ends->program.get(), read.data(), read.size()), 1);
  EXPECT_EQ(read[0], std::byte{3});
}

TEST(EventChannelTest, AFullChannelDropsAndSaysSo) {
  auto ends = EventChannel::create();
  ASSERT_TRUE(ends);
  const std::array<std::byte, 8> event{};
  int taken = 0;
  while (taken < 1'000'000 && ends->channel->put(event)) ++taken;
  EXPECT_LT(taken, 1'000'000);
  EXPECT_GE(taken, 100);
  EXPECT_FALSE(ends->channel->is_abandoned());
}

TEST(EventChannelTest, AnAbandonedChannelDropsNothing) {
  auto ends = EventChannel::create();
  ASSERT_TRUE(ends);
  ends->program.reset();
  EXPECT_TRUE(ends->channel->is_abandoned());
  EXPECT_TRUE(ends->channel->put(std::array{std::byte{1}}));
}

}  // namespace
}  // namespace pvrdma::standin
