// Account: what one adapter has of its host, against its budgets: objects and the pages that they name. (The
// RAM that its VMM shares is counted by guestmem::MappedBytes.)
//
// A guest can name one page of its memory any number of times, so the pages that objects name are bounded by
// the guest's RAM too: kPagesPerRamPage times as many. What is refused is counted, and the last refusal is
// kept, so that the log can name the budget and the key that raises it.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/budgets.h"

namespace pvrdma::verbs {

class HostAccount;

// Accounts count pages for kRegistered and kRings, bytes for kMapped, and objects.
std::uint64_t to_units(Budget budget, std::uint64_t configured);
// The use and limit of a budget, given in its account's units, in the unit of its key.
BudgetUse to_use(Budget budget, std::uint64_t use, std::uint64_t limit, std::uint64_t refused);

class Account {
 public:
  // How often a guest's RAM may be named over, by MRs and again by rings. A fast-register MR counts its list
  // twice, and a page may well be in an MPI library's MR, a storage driver's and an application's own at
  // once.
  static constexpr std::uint64_t kPagesPerRamPage = 4;

  // `host` is borrowed and outlives this; null: no totals.
  explicit Account(const Budgets& budgets, HostAccount* host = nullptr);
  ~Account();  // nothing is held any more
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  // One object and the pages that it names; gives both back when it ends. Borrows the account.
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

  // `object`: kQps, kCqs, kSrqs or kMrs. Nothing: a budget is used up, see last_refusal().
  std::optional<Holding> take(Budget object, std::uint32_t pages);
  // The adapter's table for such objects is full: its limit is the budget's.
  void table_full(Budget object) { note(object, Bound::kAdapter); }

  // How much RAM the VMM shares now. While there is none, it bounds nothing: there is no driver then.
  void set_ram(std::uint64_t bytes) { ram_bytes_ = bytes; }

  // What the last refusal was for; nothing since forget_refusal().
  void forget_refusal() { refusal_.reset(); }
  // It stays one: there was no second try that went well.
  void count_refusal();
  // One clause: "4096 QPs are its budget (budgets.qps)"; empty: nothing was refused.
  std::string last_refusal() const;

  // kQps ... kRings.
  BudgetUse use(Budget budget) const;

 private:
  // Whose limit was reached.
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
