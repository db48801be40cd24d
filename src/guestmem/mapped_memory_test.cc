#include "guestmem/mapped_memory.h"

#include <gtest/gtest.h>
#include <thread>

#include "guestmem/address_space.h"

namespace pvrdma::guestmem {
namespace {

using Limits = MappedMemory::Limits;

// Why the account refuses a mapping; empty: it has taken it.
std::string refusal(MappedMemory& account, std::uint64_t bytes) {
  const auto refused = account.take(bytes);
  return refused ? refused->to_text() : std::string();
}

TEST(MappedMemory, TakesUpToTheLimitsAndGivesBack) {
  MappedMemory account("an account", "budgets.", {.bytes = 100, .mappings = 3});
  EXPECT_EQ(refusal(account, 60), "");
  EXPECT_NE(refusal(account, 41), "");
  EXPECT_EQ(refusal(account, 30), "");
  EXPECT_EQ(refusal(account, 10), "");
  EXPECT_EQ(account.bytes().used(), 100u);
  EXPECT_EQ(account.bytes().refused(), 1u);
  account.give_back(60, false);  // a part of the first
  EXPECT_EQ(refusal(account, 1),
            "an account (budgets.mappings) allows 3 mappings of guest memory, of which 3 are in use");
  EXPECT_EQ(account.bytes().used(), 40u) << "both or neither";
  EXPECT_EQ(account.mappings().refused(), 1u);
  account.give_back(0, true);
  EXPECT_EQ(refusal(account, 60), "");
  EXPECT_EQ(refusal(account, ~0ull),
            "an account (budgets.mapped_mib) allows 0 MiB of guest memory, of which 0 are in use");
}

TEST(MappedMemory, WhatAllTogetherMayHaveBoundsEach) {
  const auto all = std::make_shared<MappedMemory>("all", "total_", Limits{.bytes = 100, .mappings = 4});
  MappedMemory one("one", "", {.bytes = 80}, all), other("other", "", {.bytes = 80}, all);
  EXPECT_EQ(refusal(one, 80), "");
  EXPECT_NE(refusal(one, 1).find("one (mapped_mib)"), std::string::npos);
  EXPECT_NE(refusal(other, 21).find("all (total_mapped_mib)"), std::string::npos);
  EXPECT_EQ(other.bytes().used(), 0u) << "both or neither";
  EXPECT_EQ(other.mappings().used(), 0u) << "both or neither";
  EXPECT_EQ(refusal(other, 20), "");
  one.give_back(80, true);
  EXPECT_EQ(all->bytes().used(), 20u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(refusal(one, 1), "");
  EXPECT_NE(refusal(other, 1).find("all (total_mappings) allows 4 mappings"), std::string::npos);
  EXPECT_EQ(other.mappings().used(), 1u);
  EXPECT_EQ(other.bytes().used(), 20u);
}

TEST(MappedMemory, OneWithManyMappingsLeavesTheLastQuarterToThoseWithFew) {
  const auto all = std::make_shared<MappedMemory>("all", "total_", Limits{.mappings = 400});
  MappedMemory hungry("hungry", "", {.mappings = 400}, all), modest("modest", "", {}, all);
  int taken = 0;
  while (!hungry.take(1)) ++taken;
  EXPECT_EQ(taken, 300);
  EXPECT_NE(refusal(hungry, 1).find("the last quarter is for adapters with few"), std::string::npos);
  for (std::uint64_t i = 0; i < kFewMappings; ++i) EXPECT_EQ(refusal(modest, 1), "") << i;
  EXPECT_NE(refusal(modest, 1), "") << "it has many now";
}

TEST(MappedMemory, ThreadsTakeNoMoreThanThereIs) {
  const auto all = std::make_shared<MappedMemory>("all", "", Limits{.bytes = 1000});
  const auto churn = [&all] {
    MappedMemory mine("mine", "", {.bytes = 700}, all);
    for (int i = 0; i < 20'000; ++i) {
      if (!refusal(mine, 600).empty()) continue;
      EXPECT_LE(all->bytes().used(), 1000u);
      mine.give_back(600, true);
    }
  };
  std::thread other(churn);
  churn();
  other.join();
  EXPECT_EQ(all->bytes().used(), 0u);
  EXPECT_EQ(all->mappings().used(), 0u);
}

TEST(MappedMemory, AVmMayMapItsMemoryTwice) {
  EXPECT_GE(mapped_bytes_for(64ull << 30), 2 * (64ull << 30));
  EXPECT_LE(default_total_mapped_bytes(), kDefaultTotalMappedBytes);
  EXPECT_GE(kMappingsMax, 2 * kMaxRamMaps);
}

}  // namespace
}  // namespace pvrdma::guestmem
