#include "adapters/shard_load.h"

#include <gtest/gtest.h>

namespace pvrdma::adapters {
namespace {

using std::chrono::seconds;

Instant at(int s) {
  return Instant{seconds(s)};
}

ShardSample::Adapter adapter(const std::string& name, const verbs::Counters& counters) {
  return {name, counters};
}

TEST(ShardLoad, IsBusyWhileItDoesNotSleep) {
  EXPECT_DOUBLE_EQ(load_between({at(100), seconds(7), {}}, {at(160), seconds(22), {}}).busy, 0.75);
  EXPECT_EQ(load_between({at(100), seconds(7), {}}, {at(160), seconds(7), {}}).busy, 1);
  EXPECT_EQ(load_between({at(100), seconds(0), {}}, {at(160), seconds(61), {}}).busy, 0) << "rounded";
  EXPECT_EQ(load_between({at(100), seconds(7), {}}, {at(100), seconds(7), {}}).busy, 0) << "no time passed";
}

TEST(ShardLoad, IsDividedByWhatTheAdaptersDid) {
  const ShardSample before{at(0), seconds(0), {adapter("a", {.tx_bytes = 1 << 20}), adapter("b", {})}};
  const ShardSample after{
      at(10),
      seconds(2),
      {adapter("b", {.tx_messages = 2048, .rx_messages = 1024}), adapter("a", {.tx_bytes = 2 << 20})}};
  const ShardLoad load = load_between(before, after);
  ASSERT_EQ(load.adapters.size(), 2U);
  EXPECT_EQ(load.adapters[0].name, "b");
  EXPECT_DOUBLE_EQ(load.adapters[0].share, 0.6) << "3072 messages, as much as 3 MiB";
  EXPECT_EQ(load.adapters[1].name, "a");
  EXPECT_DOUBLE_EQ(load.adapters[1].share, 0.2) << "1 MiB since then";
}

TEST(ShardLoad, CountsWhatPeersWriteAndReadToo) {
  const ShardSample before{at(0), seconds(0), {adapter("a", {}), adapter("b", {})}};
  const ShardSample after{
      at(10), seconds(0), {adapter("a", {.rx_bytes = 3000}), adapter("b", {.read_bytes_served = 1000})}};
  const ShardLoad load = load_between(before, after);
  EXPECT_DOUBLE_EQ(load.adapters.at(0).share, 0.75);
  EXPECT_DOUBLE_EQ(load.adapters.at(1).share, 0.25);
}

TEST(ShardLoad, AnAdapterThatDidNothingOrHasJustBegunHasNoShare) {
  const ShardSample before{
      at(0), seconds(0), {adapter("idle", {.tx_bytes = 500}), adapter("again", {.tx_bytes = 500})}};
  const ShardSample after{at(10),
                          seconds(1),
                          {adapter("idle", {.tx_bytes = 500}), adapter("new", {.tx_bytes = 1 << 30}),
                           adapter("again", {.tx_bytes = 400})}};
  const ShardLoad load = load_between(before, after);
  EXPECT_DOUBLE_EQ(load.busy, 0.9);
  EXPECT_EQ(load.adapters.at(0).share, 0);
  EXPECT_EQ(load.adapters.at(1).share, 0);
  EXPECT_EQ(load.adapters.at(2).share, 0);
}

}  // namespace
}  // namespace pvrdma::adapters
