// SlowPages: pages of this process that sleep when they are touched next, as pages do while the kernel gets
// them. They are protected, and the handler of the fault sleeps. There is one at a time.
// Thread: any, but the slow pages are chosen while nobody touches them.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/time.h"
#include "support/manual_clock.h"

namespace pvrdma::test {

class SlowPages {
 public:
  // A touch sleeps for `takes`; with a clock (borrowed), only the clock advances.
  explicit SlowPages(Duration takes, ManualClock* clock = nullptr) : takes_(takes), clock_(clock) {
    PVRDMA_CHECK(only_.exchange(this) == nullptr, "there is one at a time");
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    PVRDMA_CHECK(::sigaction(SIGSEGV, &action, &before_) == 0, "the handler is set");
  }
  ~SlowPages() {
    for (std::atomic<std::uintptr_t>& page : pages_) wake(page);
    ::sigaction(SIGSEGV, &before_, nullptr);
    only_ = nullptr;
  }
  SlowPages(const SlowPages&) = delete;
  SlowPages& operator=(const SlowPages&) = delete;

  // The page at `at` is slow once. When it is touched, the page at `then` becomes slow, if there is one.
  void add(const std::byte* at, const std::byte* then = nullptr) {
    PVRDMA_CHECK(count_ < pages_.size(), "there are few slow pages");
    then_[count_] = page_of(then);
    pages_[count_] = page_of(at);
    protect(pages_[count_++], PROT_NONE);
  }
  // Slow pages that were touched.
  std::uint32_t touched() const { return touched_; }

 private:
  static constexpr std::uintptr_t kPageBytes = 4096;

  static std::uintptr_t page_of(const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) & ~(kPageBytes - 1);
  }
  static void protect(std::uintptr_t page, int protection) {
    if (page != 0 && ::mprotect(reinterpret_cast<void*>(page), kPageBytes, protection) != 0) ::_exit(1);
  }
  static void wake(std::atomic<std::uintptr_t>& page) { protect(page.exchange(0), PROT_READ | PROT_WRITE); }

  static void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
    if (!only_.load()->sleep_at(page_of(info->si_addr))) ::signal(SIGSEGV, SIG_DFL);  // faults again
  }
  bool sleep_at(std::uintptr_t page) {
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      if (pages_[i] != page) continue;
      ++touched_;
      if (clock_ != nullptr) {
        clock_->sleep(takes_);
      } else {
        const timespec time{takes_.count() / 1'000'000'000, takes_.count() % 1'000'000'000};
        ::nanosleep(&time, nullptr);
      }
      wake(pages_[i]);
      pages_[i] = then_[i].exchange(0);
      protect(pages_[i], PROT_NONE);
      return true;
    }
    return false;
  }

  inline static std::atomic<SlowPages*> only_ = nullptr;
  const Duration takes_;
  ManualClock* const clock_;
  struct sigaction before_ {};
  std::array<std::atomic<std::uintptr_t>, 64> pages_{};  // 0: none
  std::array<std::atomic<std::uintptr_t>, 64> then_{};
  std::size_t count_ = 0;
  std::atomic<std::uint32_t> touched_ = 0;
};

}  // namespace pvrdma::test
