#include "verbs/host_account.h"

#include <algorithm>

#include "verbs/account.h"

namespace pvrdma::verbs {

HostAccount::HostAccount(const TotalBudgets& totals)
    : mapped_(std::make_shared<guestmem::MappedMemory>(
          "the budget of all adapters together", "budgets.total_",
          guestmem::MappedMemory::Limits{
              std::min(to_units(Budget::kMapped, totals.mapped_mib), guestmem::default_total_mapped_bytes()),
              std::min(totals.mappings, guestmem::kTotalMappingsMax)})) {
  at(Budget::kQps).limit = totals.qps;
  at(Budget::kMrs).limit = totals.mrs;
  at(Budget::kRegistered).limit = to_units(Budget::kRegistered, totals.registered_mib);
  at(Budget::kRings).limit = to_units(Budget::kRings, totals.rings_mib);
  at(Budget::kNatives).limit = totals.native_connections;
}

bool HostAccount::take(Budget budget, std::uint64_t amount, std::uint64_t held) {
  Total& total = at(budget);
  const std::uint64_t share = total.limit / kShares;
  const bool within_share = held <= share && amount <= share - held;
  const std::uint64_t open = within_share ? total.limit : total.limit - total.limit / kKeptParts;
  return charge(total.use, amount, open);
}

bool HostAccount::charge(std::atomic<std::uint64_t>& use, std::uint64_t amount, std::uint64_t most) {
  std::uint64_t now = use.load(std::memory_order_relaxed);
  do {
    if (now > most || amount > most - now) return false;
  } while (!use.compare_exchange_weak(now, now + amount, std::memory_order_relaxed));
  return true;
}

void HostAccount::give(Budget budget, std::uint64_t amount) {
  at(budget).use.fetch_sub(amount, std::memory_order_relaxed);
}

BudgetUse HostAccount::use(Budget budget) const {
  if (budget == Budget::kMapped) return to_use(budget, mapped_->bytes());
  if (budget == Budget::kMappings) return to_use(budget, mapped_->mappings());
  const Total& total = at(budget);
  return to_use(budget, total.use.load(std::memory_order_relaxed), total.limit,
                total.refused.load(std::memory_order_relaxed));
}

std::vector<BudgetUse> HostAccount::uses() const {
  std::vector<BudgetUse> all;
  for (const Budget budget : {Budget::kQps, Budget::kMrs, Budget::kRegistered, Budget::kRings,
                              Budget::kMapped, Budget::kMappings, Budget::kNatives}) {
    all.push_back(use(budget));
  }
  return all;
}

}  // namespace pvrdma::verbs
