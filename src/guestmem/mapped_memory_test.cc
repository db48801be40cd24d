#include "guestmem/mapped_bytes.h"

#include <gtest/gtest.h>
#include <thread>

namespace pvrdma::guestmem {
namespace {

TEST(MappedBytes, TakesUpToTheLimitAndGivesBack) {
  MappedBytes account("an account", 100);
  EXPECT_EQ(account.take(60), nullptr);
  EXPECT_EQ(account.take(41), &account);
  EXPECT_EQ(account.take(40), nullptr);
  EXPECT_EQ(account.take(1), &account);
  EXPECT_EQ(account.used(), 100u);
  account.give_back(60);
  EXPECT_EQ(account.take(60), nullptr);
  EXPECT_EQ(account.take(~0ull), &account);
}

TEST(MappedBytes, WhatAllTogetherMayHaveBoundsEach) {
  const auto all = std::make_shared<MappedBytes>("all", 100);
  MappedBytes one("one", 80, all), other("other", 80, all);
  EXPECT_EQ(one.take(80), nullptr);
  EXPECT_EQ(one.take(1), &one);
  EXPECT_EQ(other.take(21), all.get());
  EXPECT_EQ(other.used(), 0u) << "both or neither";
  EXPECT_EQ(other.take(20), nullptr);
  one.give_back(80);
  EXPECT_EQ(all->used(), 20u);
}

TEST(MappedBytes, ALowerLimitTakesNothingAway) {
  MappedBytes account("an account", 100);
  EXPECT_EQ(account.take(100), nullptr);
  account.set_limit(50);
  EXPECT_EQ(account.take(1), &account);
  account.give_back(60);
  EXPECT_EQ(account.take(10), nullptr);
  EXPECT_EQ(account.take(1), &account);
}

TEST(MappedBytes, ThreadsTakeNoMoreThanThereIs) {
  const auto all = std::make_shared<MappedBytes>("all", 1000);
  const auto churn = [&all] {
    MappedBytes mine("mine", 700, all);
    for (int i = 0; i < 20'000; ++i) {
      if (mine.take(600) != nullptr) continue;
      EXPECT_LE(all->used(), 1000u);
      mine.give_back(600);
    }
  };
  std::thread other(churn);
  churn();
  other.join();
  EXPECT_EQ(all->used(), 0u);
}

TEST(MappedBytes, AVmMayMapItsMemoryTwice) {
  EXPECT_GE(mapped_bytes_for(64ull << 30), 2 * (64ull << 30));
  EXPECT_LE(default_total_mapped_bytes(), kDefaultTotalMappedBytes);
}

}  // namespace
}  // namespace pvrdma::guestmem
