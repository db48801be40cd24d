#include "pvrdmad/shard_rig.h"

#include <memory>

#include "gtest/gtest.h"

#include "support/manual_clock.h"
#include "transport/siblings/host_rings.h"

namespace pvrdma::daemon {
namespace {

using transport::ShardNumber;

TEST(ShardRig, TellsAShardThatTakesNoTaskThatAnAdapterWorksAgain) {
  test::ManualClock clock;
  fabric::HostGids gids(2);
  const auto rings = transport::siblings::HostRings::create(2).value();
  const auto loop = shard::Loop::create({}, clock).value();
  const auto other_loop = shard::Loop::create({.mailbox_tasks = 1}, clock).value();
  ShardRig rig(ShardNumber(0), *loop, clock, gids, nullptr);
  ShardRig other(ShardNumber(1), *other_loop, clock, gids, nullptr);
  ASSERT_TRUE(rig.make_siblings(rings));
  ASSERT_TRUE(other.make_siblings(rings));
  const auto& repetitions = rings->way(ShardNumber(0), ShardNumber(1)).answers.restored;

  rig.tell_works_again(other, {}, fabric::HostGids::PortNumber(3));
  EXPECT_EQ(repetitions, 0U) << "the mailbox has taken it";
  rig.tell_works_again(other, {}, fabric::HostGids::PortNumber(3));
  EXPECT_EQ(repetitions, 1U) << "the mailbox is full";
  EXPECT_TRUE(other_loop->turn({}));
  rig.tell_works_again(other, {}, fabric::HostGids::PortNumber(3));
  EXPECT_EQ(repetitions, 1U);
}

}  // namespace
}  // namespace pvrdma::daemon
