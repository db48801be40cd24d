// Adapters of several shards draw on one HostAccount at the same time.
#include "verbs/host_account.h"

#include <array>
#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "verbs/account.h"

namespace pvrdma::verbs {
namespace {

constexpr int kRounds = 200'000;

// Both threads begin together.
void in_two_threads(const std::function<void(int thread)>& work) {
  std::atomic<int> ready = 0;
  std::array<std::thread, 2> threads;
  for (int i = 0; i < 2; ++i) {
    threads.at(static_cast<std::size_t>(i)) = std::thread([&work, &ready, i] {
      ++ready;
      while (ready != 2) {
      }
      work(i);
    });
  }
  for (std::thread& each : threads) each.join();
}

TotalBudgets qps(std::uint64_t count) {
  TotalBudgets totals;
  totals.qps = count;
  return totals;
}

// What is held is counted after it was taken and before it is given back, so it is never more than the use.
TEST(HostAccountThreads, TogetherNeverTakeMoreThanTheTotal) {
  constexpr std::uint64_t kOpen = 12;  // three quarters of the total
  HostAccount host(qps(16));
  std::atomic<std::uint64_t> held = 0;
  std::atomic<std::uint64_t> most = 0;
  std::atomic<std::uint64_t> refused = 0;
  in_two_threads([&](int thread) {
    const std::uint64_t amount = thread == 0 ? 1 : 3;  // so the limit is met exactly and by steps over it
    for (int round = 0; round < kRounds; ++round) {
      std::uint64_t mine = 0;
      while (host.take(Budget::kQps, amount, 1)) {
        mine += amount;
        const std::uint64_t now = held.fetch_add(amount) + amount;
        for (std::uint64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
      }
      ++refused;
      host.count_refusal(Budget::kQps);
      held.fetch_sub(mine);
      host.give(Budget::kQps, mine);
    }
  });
  EXPECT_EQ(most, kOpen) << "the whole open part was taken, and no more";
  EXPECT_EQ(host.use(Budget::kQps).use, 0U);
  EXPECT_EQ(host.use(Budget::kQps).refused, refused);
}

TEST(HostAccountThreads, GiveBackWhatTheirAdaptersHeld) {
  HostAccount host(qps(4000));
  in_two_threads([&](int) {
    Account adapter(Budgets::none(), &host);
    for (int round = 0; round < kRounds / 100; ++round) {
      std::vector<Account::Holding> holdings;
      for (int i = 0; i < 100; ++i) {
        auto taken = adapter.take(Budget::kQps, 3);
        ASSERT_TRUE(taken);
        holdings.push_back(*std::move(taken));
      }
    }
  });
  for (const BudgetUse& each : host.uses()) EXPECT_EQ(each.use, 0U) << to_text(each.budget);
}

TEST(HostAccountThreads, ShareTheStreams) {
  HostAccount host(TotalBudgets{});
  std::atomic<std::uint32_t> held = 0;
  std::atomic<std::uint32_t> too_many = 0;
  in_two_threads([&](int) {
    for (int round = 0; round < kRounds; ++round) {
      std::uint32_t mine = 0;
      while (host.take_stream()) {
        ++mine;
        if (++held > HostAccount::kStreamsMax) ++too_many;
      }
      held -= mine;
      for (; mine != 0; --mine) host.give_stream();
    }
  });
  EXPECT_EQ(too_many, 0U);
  std::uint32_t left = 0;
  while (host.take_stream()) ++left;
  EXPECT_EQ(left, HostAccount::kStreamsMax);
}

}  // namespace
}  // namespace pvrdma::verbs
