#include "verbs/account.h"

#include <gtest/gtest.h>
#include <vector>

#include "guestmem/address_space.h"
#include "verbs/host_account.h"

namespace pvrdma::verbs {
namespace {

constexpr std::uint64_t kMib = 1ULL << 20;
constexpr std::uint32_t kPagesPerMib = 256;

Budgets small() {
  Budgets budgets = Budgets::none();
  budgets.qps = 2;
  budgets.registered_mib = 2;
  budgets.rings_mib = 1;
  return budgets;
}

TEST(Account, GivesNoMoreObjectsThanItsBudgetAndNamesIt) {
  Account account(small());
  const auto first = account.take(Budget::kQps, 1);
  auto second = account.take(Budget::kQps, 1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(account.last_refusal(), "");
  EXPECT_FALSE(account.take(Budget::kQps, 1));
  EXPECT_EQ(account.last_refusal(), "its budget of 2 QPs is used up (budgets.qps)");
  account.count_refusal();
  EXPECT_EQ(account.use(Budget::kQps).use, 2u);
  EXPECT_EQ(account.use(Budget::kQps).limit, 2u);
  EXPECT_EQ(account.use(Budget::kQps).refused, 1u);
  second.reset();
  EXPECT_TRUE(account.take(Budget::kQps, 1));
  account.forget_refusal();
  EXPECT_EQ(account.last_refusal(), "");
}

TEST(Account, PagesOfRingsAndOfMrsAreBudgetsOfTheirOwn) {
  Account account(small());
  const auto mr = account.take(Budget::kMrs, 2 * kPagesPerMib);
  ASSERT_TRUE(mr);
  EXPECT_FALSE(account.take(Budget::kMrs, 1));
  EXPECT_EQ(account.last_refusal(), "its budget of 2 MiB named by MRs is used up (budgets.registered_mib)");
  EXPECT_EQ(account.use(Budget::kMrs).use, 1u) << "what was refused for its pages counts as no object";
  EXPECT_TRUE(account.take(Budget::kMrs, 0)) << "a DMA MR names none";
  const auto cq = account.take(Budget::kCqs, kPagesPerMib);
  ASSERT_TRUE(cq);
  EXPECT_FALSE(account.take(Budget::kSrqs, 1));
  EXPECT_EQ(account.last_refusal(), "its budget of 1 MiB named by rings is used up (budgets.rings_mib)");
  EXPECT_EQ(account.use(Budget::kRegistered).use, 2u);
  EXPECT_EQ(account.use(Budget::kRings).limit, 1u);
}

TEST(Account, ConnectionsToNativeEndpointsNameNoPages) {
  Budgets budgets = small();
  budgets.native_connections = 1;
  Account account(budgets);
  account.set_ram(guestmem::kPageBytes);
  const auto rings = account.take(Budget::kCqs, Account::kPagesPerRamPage);
  account.set_ram(1);  // the rings name more than is allowed now
  const auto one = account.take(Budget::kNatives, 0);
  ASSERT_TRUE(rings && one);
  EXPECT_FALSE(account.has_refusal());
  EXPECT_FALSE(account.take(Budget::kNatives, 0));
  EXPECT_EQ(account.last_refusal(),
            "its budget of 1 connection to native endpoints is used up (budgets.native_connections)");
  EXPECT_EQ(account.use(Budget::kNatives).use, 1u);
}

TEST(Account, AHoldingComesBackOnceWhenItEnds) {
  Account account(small());
  {
    Account::Holding kept;
    {
      auto taken = account.take(Budget::kQps, kPagesPerMib);
      ASSERT_TRUE(taken);
      kept = *std::move(taken);
    }
    EXPECT_FALSE(account.take(Budget::kCqs, 1)) << "the holding moved, it did not end";
  }
  EXPECT_EQ(account.use(Budget::kQps).use, 0u);
  EXPECT_TRUE(account.take(Budget::kCqs, kPagesPerMib));
}

TEST(Account, AGuestsRamBoundsWhatItCanName) {
  Account account(Budgets::none());
  account.set_ram(kMib);
  const auto most = account.take(Budget::kMrs, 4 * kPagesPerMib);
  ASSERT_TRUE(most);
  EXPECT_FALSE(account.take(Budget::kMrs, 1));
  EXPECT_EQ(account.last_refusal(), "its limit of 4 MiB named by MRs, 4 times its RAM, is used up");
  EXPECT_EQ(account.use(Budget::kRegistered).limit, 4u);
  EXPECT_TRUE(account.take(Budget::kQps, 4 * kPagesPerMib)) << "rings are counted by themselves";
  account.set_ram(2 * kMib);
  EXPECT_TRUE(account.take(Budget::kMrs, 4 * kPagesPerMib));
  account.set_ram(4096);
  EXPECT_FALSE(account.take(Budget::kMrs, 1)) << "RAM went away under what is registered";
  EXPECT_EQ(account.use(Budget::kRegistered).use, 4u);
  EXPECT_EQ(account.use(Budget::kRegistered).limit, 0u) << "less than a MiB";
}

TEST(HostAccount, AllAdaptersTogetherStayBelowTheTotal) {
  TotalBudgets totals;
  totals.qps = 400;
  HostAccount host(totals);
  Account greedy(Budgets::none(), &host);
  std::vector<Account::Holding> held;
  while (auto one = greedy.take(Budget::kQps, 1)) held.push_back(*std::move(one));
  EXPECT_EQ(held.size(), 300u) << "the last quarter is not for an adapter that has more than its share";
  EXPECT_EQ(greedy.last_refusal(),
            "the budget of 400 QPs for all adapters together is used up, except the part reserved for others "
            "(budgets.total_qps)");
  greedy.count_refusal();
  EXPECT_EQ(greedy.use(Budget::kQps).refused, 1u);
  EXPECT_EQ(host.use(Budget::kQps).use, 300u);
  EXPECT_EQ(host.use(Budget::kQps).refused, 1u);
  held.pop_back();
  EXPECT_TRUE(greedy.take(Budget::kQps, 1));
}

TEST(HostAccount, AHundredAdaptersHaveTheirShareWhateverOneTakes) {
  TotalBudgets totals;
  totals.registered_mib = 400;
  HostAccount host(totals);
  Account greedy(Budgets::none(), &host);
  std::vector<Account::Holding> held;
  while (auto mib = greedy.take(Budget::kMrs, kPagesPerMib)) held.push_back(*std::move(mib));
  EXPECT_EQ(held.size(), 300u);
  std::vector<std::unique_ptr<Account>> others;
  for (int i = 0; i < 100; ++i) {
    others.push_back(std::make_unique<Account>(Budgets::none(), &host));
    auto share = others.back()->take(Budget::kMrs, kPagesPerMib);
    ASSERT_TRUE(share) << "adapter " << i;
    held.push_back(*std::move(share));
    EXPECT_FALSE(others.back()->take(Budget::kMrs, 1)) << "more than its share";
  }
  held.clear();
  EXPECT_EQ(host.use(Budget::kRegistered).use, 0u);
}

TEST(HostAccount, MappedRamHasATotalToo) {
  TotalBudgets totals;
  totals.mapped_mib = 400;
  const HostAccount host(totals);
  guestmem::MappedMemory adapter("an adapter", "", {.bytes = 1000 * kMib}, host.mapped());
  EXPECT_FALSE(adapter.take(300 * kMib + 1));
  const auto refusal = adapter.take(100 * kMib);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(
      refusal->to_text(),
      "the budget of all adapters together (budgets.total_mapped_mib) allows 400 MiB of guest memory, of "
      "which 300 are in use");
  EXPECT_EQ(host.use(Budget::kMapped).use, 301u) << "what is used of a MiB counts whole";
  EXPECT_EQ(host.use(Budget::kMapped).limit, 400u);
  EXPECT_EQ(host.use(Budget::kMapped).refused, 1u);
  EXPECT_EQ(host.use(Budget::kMappings).use, 1u);
  EXPECT_EQ(host.use(Budget::kMappings).limit, totals.mappings);
  adapter.give_back(300 * kMib + 1, true);
  EXPECT_EQ(host.use(Budget::kMappings).use, 0u);
}

}  // namespace
}  // namespace pvrdma::verbs
