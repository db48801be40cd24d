// HostAccount: checks the sum over all adapters of a daemon, on all its shards, against the totals in the
// configuration. No total is exceeded at any moment, whoever takes at the same time.
//
// The last quarter of each total, except those of guestmem::MappedMemory, is reserved for adapters that hold
// less than 1/400 of the total. So a hundred adapters can always have 1/400 each, whatever the others take.
//
// Thread: any; never blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "guestmem/mapped_memory.h"
#include "vocabulary/budgets.h"

namespace pvrdma::verbs {

class HostAccount {
 public:
  static constexpr std::uint64_t kKeptParts = 4;  // 1/4 of each total is reserved
  static constexpr std::uint64_t kShares = 400;   // 1/400 of each total is an adapter's guaranteed share

  explicit HostAccount(const TotalBudgets& totals);

  // Takes `amount` (objects or pages) for an adapter that already holds `held`. Returns false if the total
  // does not allow it.
  bool take(Budget budget, std::uint64_t amount, std::uint64_t held);
  void give(Budget budget, std::uint64_t amount);
  void count_refusal(Budget budget) { at(budget).refused.fetch_add(1, std::memory_order_relaxed); }

  // Reserves one of kStreamsMax places for an adapter's state that passes through a VMM's messages: each may
  // be large. Returns false if all are taken.
  static constexpr std::uint32_t kStreamsMax = 4;
  bool take_stream() { return charge(streams_, 1, kStreamsMax); }
  void give_stream() { streams_.fetch_sub(1, std::memory_order_relaxed); }

  // The account that the adapters' accounts of mapped RAM draw on.
  const std::shared_ptr<guestmem::MappedMemory>& mapped() const { return mapped_; }

  // In the units of take().
  std::uint64_t limit(Budget budget) const { return at(budget).limit; }
  BudgetUse use(Budget budget) const;
  // The use of every budget that has a total.
  std::vector<BudgetUse> uses() const;

 private:
  // The counts guard no other memory, so relaxed operations suffice.
  struct Total {
    std::atomic<std::uint64_t> use = 0;
    std::uint64_t limit = kNoBudget;  // does not change
    std::atomic<std::uint64_t> refused = 0;
  };
  // Adds `amount` to `use` unless the sum would exceed `most`.
  static bool charge(std::atomic<std::uint64_t>& use, std::uint64_t amount, std::uint64_t most);
  Total& at(Budget budget) { return totals_[static_cast<std::size_t>(budget)]; }
  const Total& at(Budget budget) const { return totals_[static_cast<std::size_t>(budget)]; }

  std::array<Total, kBudgetCount> totals_;
  std::atomic<std::uint64_t> streams_ = 0;
  const std::shared_ptr<guestmem::MappedMemory> mapped_;
};

}  // namespace pvrdma::verbs
