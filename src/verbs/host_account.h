// HostAccount: what all adapters of a daemon have together, against the totals of the configuration.
//
// The last quarter of each total but that of mapped RAM is kept for adapters that have less than a 400th of
// the whole: so a hundred adapters can always have that much each, whatever the others take.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/budgets.h"
#include "guestmem/mapped_bytes.h"

namespace pvrdma::verbs {

class HostAccount {
 public:
  static constexpr std::uint64_t kKeptParts = 4;  // one of so many is kept
  static constexpr std::uint64_t kShares = 400;   // one of so many is an adapter's for certain

  explicit HostAccount(const TotalBudgets& totals);

  // `amount` more for an adapter that has `held`: objects or pages. False: it would be too much.
  bool take(Budget budget, std::uint64_t amount, std::uint64_t held);
  void give(Budget budget, std::uint64_t amount);
  void count_refusal(Budget budget) { ++at(budget).refused; }

  // Adapters' states that are on their way through a VMM's messages: each may be large, so there are few at
  // once. False: there are kStreamsMax.
  static constexpr std::uint32_t kStreamsMax = 4;
  bool take_stream() { return streams_ < kStreamsMax && ++streams_ != 0; }
  void give_stream() { --streams_; }

  // What the adapters' accounts of mapped RAM are part of.
  const std::shared_ptr<guestmem::MappedBytes>& mapped() const { return mapped_; }

  // In the unit of take().
  std::uint64_t limit(Budget budget) const { return at(budget).limit; }
  BudgetUse use(Budget budget) const;
  // Of every budget that has a total.
  std::vector<BudgetUse> uses() const;

 private:
  struct Total {
    std::uint64_t use = 0;
    std::uint64_t limit = kNoBudget;
    std::uint64_t refused = 0;
  };
  Total& at(Budget budget) { return totals_[static_cast<std::size_t>(budget)]; }
  const Total& at(Budget budget) const { return totals_[static_cast<std::size_t>(budget)]; }

  std::array<Total, kBudgetCount> totals_;
  std::uint32_t streams_ = 0;
  const std::shared_ptr<guestmem::MappedBytes> mapped_;
};

}  // namespace pvrdma::verbs
