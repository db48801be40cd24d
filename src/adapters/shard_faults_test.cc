#include "adapters/shard_faults.h"

#include <gtest/gtest.h>
#include <optional>
#include <string>

#include "adapters/shard_fixture.h"

namespace pvrdma::adapters {
namespace {

class ShardFaultsTest : public test::ShardFixture {
 protected:
  ShardFaults faults_{shards_, clock_, *reaper_, Injection::kAllowed};
};

TEST_F(ShardFaultsTest, AddsListsAndRemovesFaults) {
  start();
  const auto first = faults_.add({.adapter = kName, .drop_ppm = 10, .seed = 7});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->seed, 7U);
  EXPECT_EQ(faults_.add({.adapter = kName, .drop_ppm = 20}).error().kind, ErrorKind::kConflict);
  EXPECT_EQ(faults_.add({.adapter = "VM-02", .drop_ppm = 20}).error().kind, ErrorKind::kNotFound);
  const auto listed = faults_.list().value();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].id, first->id);
  EXPECT_EQ(listed[0].drop_ppm, 10U);
  EXPECT_EQ(faults_.remove(first->id + 1).error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(faults_.remove(first->id));
  EXPECT_TRUE(faults_.list()->empty());
  EXPECT_TRUE(faults_.remove(std::nullopt)) << "of none, all";
  const auto second = faults_.add({.adapter = kName, .drop_ppm = 20});
  ASSERT_TRUE(second);
  EXPECT_GT(second->id, first->id);
  EXPECT_TRUE(second->seed) << "one is drawn, and told";
  EXPECT_TRUE(faults_.remove(std::nullopt));
  EXPECT_TRUE(faults_.list()->empty());
}

TEST_F(ShardFaultsTest, InjectsNothingUnlessItIsAllowed) {
  start();
  ShardFaults faults(shards_, clock_, *reaper_, Injection::kRefused);
  const auto refused = faults.add({.adapter = kName, .drop_ppm = 10});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_NE(refused.error().message.find("--fault-injection"), std::string::npos);
  EXPECT_TRUE(faults.list()->empty());
}

}  // namespace
}  // namespace pvrdma::adapters
