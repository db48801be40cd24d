// Account: counts what one adapter takes from its host (objects, and the pages that they name) and checks it
// against the adapter's budgets. guestmem::MappedMemory counts the RAM that the VMM shares.
//
// A guest can name the same page of its memory any number of times. Therefore the guest's RAM also bounds the
// pages that objects name: at most kPagesPerRamPage times as many. The account counts refusals and keeps the
// last one, so that the log can name the budget and the key that raises it.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "guestmem/mapped_memory.h"
#include "vocabulary/budgets.h"

namespace pvrdma::verbs {

class HostAccount;

// Accounts count pages for kRegistered and kRings, bytes for kMapped, and objects.
std::uint64_t to_units(Budget budget, std::uint64_t configured);
// Converts the use and the limit of a budget from its account's units to the unit of its configuration key.
BudgetUse to_use(Budget budget, std::uint64_t use, std::uint64_t limit, std::uint64_t refused);
BudgetUse to_use(Budget budget, const guestmem::MappedCount& count);

class Account {
 public:
  // How many times MRs may name a guest's whole RAM; the same bound applies to rings. A fast-register MR
  // counts its page list twice. One page may be in the MRs of an MPI library, a storage driver and an
  // application at once.
  static constexpr std::uint64_t kPagesPerRamPage = 4;

  // `host` is borrowed and outlives the account. If it is null, no totals apply.
  explicit Account(const Budgets& budgets, HostAccount* host = nullptr);
  ~Account();  // requires that every Holding has ended
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  // One object and the pages that it names. The destructor gives both back. Borrows the account.
  class Holding {
   public:
    Holding() = default;
    Holding(Holding&& other) noexcept
        : account_(std::exchange(other.account_, nullptr)), object_(other.object_), pages_(other.pages_) {}
    Holding& operator=(Holding&& other) noexcept {
      std::swap(account_, other.account_);
      std::swap(object_, other.object_);
      std::swap(pages_, other.pages_);
      return *this;
    }
    ~Holding() {
      if (account_ != nullptr) account_->give_back(object_, pages_);
    }

    std::uint32_t pages() const { return pages_; }

   private:
    friend class Account;
    Holding(Account& account, Budget object, std::uint32_t pages)
        : account_(&account), object_(object), pages_(pages) {}

    Account* account_ = nullptr;
    Budget object_{};
    std::uint32_t pages_ = 0;
  };

  // `object`: kQps, kCqs, kSrqs, kMrs, or kNatives, which name no pages. Returns nothing if a budget is used
  // up; last_refusal() then names it.
  std::optional<Holding> take(Budget object, std::uint32_t pages);
  // Notes that the adapter's table for such objects is full. The table's limit equals the budget's.
  void table_full(Budget object) { note(object, Bound::kAdapter); }

  // Sets how much RAM the VMM shares now. 0 means that no driver runs and that RAM bounds nothing.
  void set_ram(std::uint64_t bytes) { ram_bytes_ = bytes; }

  // Forgets what the last refusal was for.
  void forget_refusal() { refusal_.reset(); }
  bool has_refusal() const { return refusal_.has_value(); }
  // Counts the last refusal: the caller did not succeed on a second attempt.
  void count_refusal();
  // One clause: "its budget of 4096 QPs is used up (budgets.qps)". Empty if nothing was refused.
  std::string last_refusal() const;

  // kQps ... kRings, and kNatives.
  BudgetUse use(Budget budget) const;

 private:
  // Which limit was reached: the adapter's budget, the bound by RAM, or the host's total.
  enum class Bound : std::uint8_t { kAdapter, kRam, kHost };
  struct Entry {
    std::uint64_t use = 0;
    std::uint64_t limit = kNoBudget;
    std::uint64_t refused = 0;
  };
  struct Refusal {
    Budget budget;
    Bound bound;
    std::uint64_t limit;  // in units
  };

  Entry& at(Budget budget) { return entries_[static_cast<std::size_t>(budget)]; }
  const Entry& at(Budget budget) const { return entries_[static_cast<std::size_t>(budget)]; }
  std::uint64_t limit_by_ram(Budget budget) const;
  bool take_of(Budget budget, std::uint64_t amount);
  void give_of(Budget budget, std::uint64_t amount);
  void give_back(Budget object, std::uint32_t pages);
  void note(Budget budget, Bound bound);

  HostAccount* const host_;
  std::array<Entry, kBudgetCount> entries_;
  std::uint64_t ram_bytes_ = 0;
  std::optional<Refusal> refusal_;
};

}  // namespace pvrdma::verbs
