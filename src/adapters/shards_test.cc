#include "adapters/shards.h"

#include <gtest/gtest.h>
#include <thread>

#include "adapters/faults.h"
#include "adapters/shard_faults.h"
#include "adapters/shard_links.h"
#include "adapters/two_shards_fixture.h"
#include "base/reaper.h"

namespace pvrdma::adapters {
namespace {

class ShardsTest : public testing::Test {
 protected:
  Result<std::thread::id> thread_that_serves(const std::string& adapter) {
    return two_.shards().on(
        adapter,
        [adapter](ServedAdapter& served) -> Result<std::thread::id> {
          EXPECT_EQ(served.port().name(), adapter);
          return std::this_thread::get_id();
        },
        "a test's");
  }

  test::TwoShards two_;
};

TEST_F(ShardsTest, AnAdapterIsAskedOnItsShard) {
  EXPECT_EQ(thread_that_serves("VM-1").value(), two_.thread_of(0));
  EXPECT_EQ(thread_that_serves("VM-2").value(), two_.thread_of(1));
}

TEST_F(ShardsTest, NoShardHasThatAdapter) {
  const auto nowhere = thread_that_serves("VM-3");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(nowhere.error().message, "there is no adapter \"VM-3\": pvrdmactl adapter list shows them");
}

TEST_F(ShardsTest, AShardThatHasStoppedHidesOnlyItsOwnAdapters) {
  two_.stop(1);
  EXPECT_EQ(thread_that_serves("VM-1").value(), two_.thread_of(0));
  const auto hidden = thread_that_serves("VM-2");
  ASSERT_FALSE(hidden);
  EXPECT_EQ(hidden.error().kind, ErrorKind::kUnavailable) << "it may be there";
}

TEST_F(ShardsTest, LinksAreSetWhereTheAdapterIs) {
  ShardLinks links(two_.shards());
  const auto is_up = [this](const std::string& adapter) {
    return two_.shards()
        .on(
            adapter, [](ServedAdapter& served) -> Result<bool> { return served.adapter().info().link_up; },
            "a test's")
        .value();
  };
  ASSERT_TRUE(links.set("VM-2", Link::kDown));
  EXPECT_TRUE(is_up("VM-1"));
  EXPECT_FALSE(is_up("VM-2"));
}

TEST_F(ShardsTest, FaultsOfAllShardsAreListedAndRemovedTogether) {
  const SteadyClock clock;
  const auto reaper = Reaper::create().value();
  ShardFaults faults(two_.shards(), clock, *reaper, Injection::kAllowed);
  for (const char* adapter : {"VM-2", "VM-1"}) {
    FaultWish wish;
    wish.adapter = adapter;
    ASSERT_TRUE(faults.add(wish));
  }
  const auto listed = faults.list().value();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].adapter, "VM-2") << "in the order in which they were added";
  EXPECT_EQ(listed[1].adapter, "VM-1");
  ASSERT_TRUE(faults.remove(listed[1].id));
  ASSERT_EQ(faults.list().value().size(), 1U);
  EXPECT_EQ(faults.remove(77).error().kind, ErrorKind::kNotFound);
  ASSERT_TRUE(faults.remove(std::nullopt));
  EXPECT_TRUE(faults.list().value().empty());
}

}  // namespace
}  // namespace pvrdma::adapters
