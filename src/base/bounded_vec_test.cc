#include "base/bounded_vec.h"

#include <gtest/gtest.h>

namespace pvrdma {
namespace {

TEST(BoundedVec, RefusesTheElementAfterTheLast) {
  BoundedVec<int, 2> v;
  EXPECT_TRUE(v.push_back(1));
  EXPECT_TRUE(v.push_back(2));
  EXPECT_FALSE(v.push_back(3));
  EXPECT_EQ(v.size(), 2U);
  EXPECT_EQ(v.back(), 2);
}

TEST(BoundedVecDeathTest, AbortsOnAnIndexBeyondTheSize) {
  BoundedVec<int, 2> v;
  EXPECT_TRUE(v.push_back(1));
  EXPECT_DEATH(static_cast<void>(v[1]), "index beyond");
}

}  // namespace
}  // namespace pvrdma
