// Moves that the balancer makes of given loads, and how it measures. tests/process/test_shard_balancing.py
// has the traffic.
#include "adapters/shard_balancer.h"

#include <gtest/gtest.h>
#include <thread>

#include "adapters/two_shards_fixture.h"
#include "support/manual_clock.h"

namespace pvrdma::adapters {
namespace {

class ShardBalancerTest : public testing::Test {
 protected:
  bool is_on(std::size_t shard, const std::string& adapter) {
    return two_.shards()
        .on(
            adapter,
            [this, shard](ServedAdapter&) -> Result<bool> {
              return std::this_thread::get_id() == two_.thread_of(shard);
            },
            "a test's")
        .value();
  }
  // VM-1 alone makes shard 0 busy.
  static std::vector<ShardLoad> busy(double share = 0.3) {
    return {{0.95, {{"VM-1", share}}}, {0.1, {{"VM-2", 0.1}}}};
  }
  static std::vector<ShardLoad> busy_other() { return {{0.1, {}}, {0.95, {{"VM-1", 0.3}, {"VM-2", 0.2}}}}; }
  ShardPlacement::Counts counts() const { return placement_.counts(); }

  pvrdma::test::ManualClock clock_;
  Keeping keeping_{[] {}};
  test::TwoShards two_{&keeping_};
  std::string kept_;                // an adapter that may not move
  std::vector<std::string> asked_;  // which adapters were to move
  ShardPlacement placement_{two_.shards(), [this](const std::string& adapter) {
                              asked_.push_back(adapter);
                              return adapter == kept_ ? fail(ErrorKind::kConflict, "a checkpoint")
                                                      : Result<void>();
                            }};
  ShardBalancer balancer_{two_.shards(), placement_, clock_, std::chrono::hours(1)};
};

TEST_F(ShardBalancerTest, MovesOneAdapterAndLeavesItThereForAWhile) {
  balancer_.balance(busy());
  EXPECT_TRUE(is_on(1, "VM-1"));
  EXPECT_EQ(counts().moves, 1U);
  EXPECT_EQ(counts().own_moves, 1U);

  balancer_.balance(busy_other());
  EXPECT_TRUE(is_on(1, "VM-1"));
  EXPECT_TRUE(is_on(0, "VM-2")) << "VM-1 has just moved";
  balancer_.balance(busy_other());
  EXPECT_EQ(counts().own_moves, 2U);

  clock_.advance(ShardBalance::kStay);
  balancer_.balance(busy_other());
  EXPECT_TRUE(is_on(0, "VM-1"));
}

TEST_F(ShardBalancerTest, TriesTheNextAdapterIfOneMayNotMove) {
  ASSERT_TRUE(placement_.place("VM-1", 1));
  ASSERT_TRUE(placement_.place("VM-1", 0));
  kept_ = "VM-2";
  balancer_.balance({{0.95, {{"VM-1", 0.3}, {"VM-2", 0.2}}}, {0.1, {}}});
  EXPECT_TRUE(is_on(0, "VM-1")) << "an operator has chosen its shard";
  EXPECT_TRUE(is_on(1, "VM-2")) << "its VM is written to a file";
  EXPECT_EQ(counts().moves, 2U);
  EXPECT_EQ(counts().own_moves, 0U);

  balancer_.balance({{0.1, {}}, {0.95, {{"VM-2", 0.2}}}});
  EXPECT_TRUE(is_on(1, "VM-2"));
  kept_.clear();
  balancer_.balance({{0.1, {}}, {0.95, {{"VM-2", 0.2}}}});
  EXPECT_TRUE(is_on(0, "VM-2")) << "what was refused is tried again";
}

TEST_F(ShardBalancerTest, TheOperatorsWishToStayCounts) {
  ASSERT_EQ(placement_.place("VM-1", 0)->to, 0U);
  balancer_.balance(busy());
  EXPECT_TRUE(is_on(0, "VM-1"));
  ASSERT_FALSE(placement_.place("VM-2", 7));
  balancer_.balance({{0.1, {}}, {0.95, {{"VM-2", 0.2}}}});
  EXPECT_TRUE(is_on(0, "VM-2")) << "a refused wish is none";
}

TEST_F(ShardBalancerTest, TriesNoMoreIfTheOtherShardHasNoMemory) {
  ASSERT_TRUE(placement_.relieve({.adapter = "VM-2", .from = 1, .to = 0}));
  two_.refuse_memory(1, true);
  asked_.clear();
  balancer_.balance({{0.95, {{"VM-1", 0.3}, {"VM-2", 0.2}}}, {0.1, {}}});
  EXPECT_EQ(asked_, std::vector<std::string>{"VM-1"});
  EXPECT_TRUE(is_on(0, "VM-1"));
  two_.refuse_memory(1, false);
  balancer_.balance(busy());
  EXPECT_TRUE(is_on(1, "VM-1"));
}

TEST_F(ShardBalancerTest, MeasuresFromOneCallToTheNext) {
  const SteadyClock clock;
  ShardBalancer balancer(two_.shards(), placement_, clock);
  EXPECT_TRUE(balancer.measure().empty()) << "there is nothing to compare with";
  const auto works = [clock] {
    const Instant end = clock.now() + std::chrono::milliseconds(20);
    while (clock.now() < end) {
    }
    return true;
  };
  std::vector<ShardLoad> loads;
  do {  // other programs may have the cores meanwhile
    ASSERT_TRUE(shard::ask(two_.loop(1), kShardPatience, works));
    loads = balancer.measure();
    ASSERT_EQ(loads.size(), 2U);
  } while (loads[0].busy >= ShardBalance::kIdle || loads[1].busy <= ShardBalance::kBusy);
  EXPECT_EQ(loads[0].adapters.at(0).name, "VM-1");
  EXPECT_EQ(loads[1].adapters.at(0).name, "VM-2");
}

TEST_F(ShardBalancerTest, AShardThatDoesNotAnswerEndsTheMeasurement) {
  balancer_.measure();
  two_.stop(1);
  EXPECT_TRUE(balancer_.measure().empty());
  balancer_.balance({});
  EXPECT_EQ(counts().moves, 0U);
}

TEST_F(ShardBalancerTest, ItsThreadStopsInTheMiddleOfAPeriod) {
  balancer_.start();
  balancer_.stop();
  EXPECT_EQ(counts().moves, 0U);
}

}  // namespace
}  // namespace pvrdma::adapters
