// PageBudget: how many pages of rings an adapter's objects may have together; each costs the daemon memory of
// its own.
//
// A guest can name one page of its memory any number of times, so its own size bounds nothing. Thread:
// shard-owned.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace pvrdma::verbs {

class PageBudget {
 public:
  explicit PageBudget(std::uint64_t pages) : left_(pages) {}

  // Gives its pages back when it ends. Borrows the budget, which outlives it.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), pages_(other.pages_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(pages_, other.pages_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->left_ += pages_;
    }

   private:
    friend class PageBudget;
    Share(PageBudget& budget, std::uint64_t pages) : budget_(&budget), pages_(pages) {}

    PageBudget* budget_ = nullptr;
    std::uint64_t pages_ = 0;
  };

  // Nothing when fewer than `pages` are left.
  std::optional<Share> take(std::uint64_t pages) {
    if (pages > left_) return std::nullopt;
    left_ -= pages;
    return Share(*this, pages);
  }

 private:
  std::uint64_t left_;
};

}  // namespace pvrdma::verbs
