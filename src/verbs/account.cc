#include "verbs/account.h"

#include <algorithm>
#include <fmt/core.h>
#include <limits>

#include "base/check.h"
#include "guestmem/address_space.h"
#include "verbs/host_account.h"

namespace pvrdma::verbs {
namespace {

constexpr std::uint64_t kMib = 1ULL << 20;

// How many of the account's units one unit of the configuration key is.
constexpr std::uint64_t units_in_configured(Budget budget) {
  switch (budget) {
    case Budget::kRegistered:
    case Budget::kRings:
      return kMib / guestmem::kPageBytes;
    case Budget::kMapped:
      return kMib;
    case Budget::kQps:
    case Budget::kCqs:
    case Budget::kSrqs:
    case Budget::kMrs:
    case Budget::kMappings:
    case Budget::kNatives:
    case Budget::kCommands:
    case Budget::kDoorbells:
      break;
  }
  return 1;
}

constexpr Budget pages_of(Budget object) {
  return object == Budget::kMrs ? Budget::kRegistered : Budget::kRings;
}

// The amount with its unit, as a text.
std::string quantity(Budget budget, std::uint64_t units) {
  const std::uint64_t amount = units == kNoBudget ? units : units / units_in_configured(budget);
  switch (budget) {
    case Budget::kQps:
      return fmt::format("{} QPs", amount);
    case Budget::kCqs:
      return fmt::format("{} CQs", amount);
    case Budget::kSrqs:
      return fmt::format("{} SRQs", amount);
    case Budget::kMrs:
      return fmt::format("{} MRs", amount);
    case Budget::kRegistered:
      return fmt::format("{} MiB named by MRs", amount);
    case Budget::kRings:
      return fmt::format("{} MiB named by rings", amount);
    case Budget::kNatives:
      return fmt::format("{} connection{} to native endpoints", amount, amount == 1 ? "" : "s");
    case Budget::kMapped:
    case Budget::kMappings:
    case Budget::kCommands:
    case Budget::kDoorbells:
      break;
  }
  return std::to_string(amount);
}

}  // namespace

std::uint64_t to_units(Budget budget, std::uint64_t configured) {
  const std::uint64_t factor = units_in_configured(budget);
  return configured > kNoBudget / factor ? kNoBudget : configured * factor;
}

BudgetUse to_use(Budget budget, const guestmem::MappedCount& count) {
  return to_use(budget, count.used(), count.limit(), count.refused());
}

BudgetUse to_use(Budget budget, std::uint64_t use, std::uint64_t limit, std::uint64_t refused) {
  const std::uint64_t factor = units_in_configured(budget);
  return {budget, use / factor + (use % factor != 0 ? 1 : 0), limit == kNoBudget ? limit : limit / factor,
          refused};
}

Account::Account(const Budgets& budgets, HostAccount* host) : host_(host) {
  at(Budget::kQps).limit = budgets.qps;
  at(Budget::kCqs).limit = budgets.cqs;
  at(Budget::kSrqs).limit = budgets.srqs;
  at(Budget::kMrs).limit = budgets.mrs;
  at(Budget::kRegistered).limit = to_units(Budget::kRegistered, budgets.registered_mib);
  at(Budget::kRings).limit = to_units(Budget::kRings, budgets.rings_mib);
  at(Budget::kNatives).limit = budgets.native_connections;
}

Account::~Account() {
  for (const Budget budget : {Budget::kQps, Budget::kCqs, Budget::kSrqs, Budget::kMrs, Budget::kNatives}) {
    PVRDMA_CHECK(at(budget).use == 0, "all Holdings end before their account");
  }
}

std::optional<Account::Holding> Account::take(Budget object, std::uint32_t pages) {
  if (!take_of(object, 1)) return std::nullopt;
  if (pages != 0 && !take_of(pages_of(object), pages)) {
    give_of(object, 1);
    return std::nullopt;
  }
  return Holding(*this, object, pages);
}

void Account::give_back(Budget object, std::uint32_t pages) {
  give_of(object, 1);
  if (pages != 0) give_of(pages_of(object), pages);
}

std::uint64_t Account::limit_by_ram(Budget budget) const {
  const bool applies = budget == Budget::kRegistered || budget == Budget::kRings;
  return applies && ram_bytes_ != 0 ? ram_bytes_ / guestmem::kPageBytes * kPagesPerRamPage : kNoBudget;
}

// `use` may exceed a limit: RAM that the VMM has unmapped lowers the bound below what is in use.
bool Account::take_of(Budget budget, std::uint64_t amount) {
  Entry& entry = at(budget);
  const auto fits = [&](std::uint64_t limit) { return entry.use <= limit && amount <= limit - entry.use; };
  if (!fits(entry.limit)) {
    note(budget, Bound::kAdapter);
    return false;
  }
  if (!fits(limit_by_ram(budget))) {
    note(budget, Bound::kRam);
    return false;
  }
  if (host_ != nullptr && !host_->take(budget, amount, entry.use)) {
    note(budget, Bound::kHost);
    return false;
  }
  entry.use += amount;
  return true;
}

void Account::give_of(Budget budget, std::uint64_t amount) {
  at(budget).use -= amount;
  if (host_ != nullptr) host_->give(budget, amount);
}

void Account::count_refusal() {
  if (!refusal_) return;
  ++at(refusal_->budget).refused;
  if (refusal_->bound == Bound::kHost) host_->count_refusal(refusal_->budget);
}

void Account::note(Budget budget, Bound bound) {
  const std::uint64_t limit = bound == Bound::kAdapter ? at(budget).limit
                              : bound == Bound::kRam   ? limit_by_ram(budget)
                                                       : host_->limit(budget);
  refusal_ = Refusal{budget, bound, limit};
}

std::string Account::last_refusal() const {
  if (!refusal_) return {};
  const std::string limit = quantity(refusal_->budget, refusal_->limit);
  const std::string_view key = to_text(refusal_->budget);
  switch (refusal_->bound) {
    case Bound::kAdapter:
      return fmt::format("its budget of {} is used up (budgets.{})", limit, key);
    case Bound::kRam:
      return fmt::format("its limit of {}, {} times its RAM, is used up", limit, kPagesPerRamPage);
    case Bound::kHost:
      return fmt::format(
          "the budget of {} for all adapters together is used up, except the part reserved for others "
          "(budgets.total_{})",
          limit, key);
  }
  return {};
}

BudgetUse Account::use(Budget budget) const {
  const Entry& entry = at(budget);
  const std::uint64_t limit = std::min(entry.limit, limit_by_ram(budget));
  return to_use(budget, entry.use, limit, entry.refused);
}

}  // namespace pvrdma::verbs
