#include "shard/task.h"

#include <gtest/gtest.h>
#include <memory>

namespace pvrdma::shard {
namespace {

TEST(Task, CarriesWhatCannotBeCopied) {
  int result = 0;
  Task task([value = std::make_unique<int>(7), &result] { result = *value; });
  Task moved = std::move(task);
  moved();
  EXPECT_EQ(result, 7);
}

TEST(Task, IsFalseWhenEmpty) {
  EXPECT_FALSE(Task{});
  EXPECT_TRUE(Task([] {}));
}

TEST(Task, DestroysWhatItCarriesWithoutBeingRun) {
  auto shared = std::make_shared<int>(1);
  {
    const Task task([shared] {});
  }
  EXPECT_EQ(shared.use_count(), 1);
}

}  // namespace
}  // namespace pvrdma::shard
