// ChangeCounter: a number in memory that outlives the process and counts changes. A record that stores the
// number is still valid if the number is unchanged.
//
// Layout: a memfd of one page with the number in its first 8 bytes. Thread: bump() one, value() any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::keep {

class ChangeCounter {
 public:
  // `earlier` is the memfd of another process, to continue with it; without it a new counter begins at 0.
  // Errors: those of the system calls; EINVAL if `earlier` is not a counter.
  static Result<std::unique_ptr<ChangeCounter>> create(Fd earlier = {});
  ~ChangeCounter();
  ChangeCounter(const ChangeCounter&) = delete;
  ChangeCounter& operator=(const ChangeCounter&) = delete;

  int fd() const { return memory_.get(); }  // borrowed
  std::uint64_t value() const { return number().load(std::memory_order_acquire); }
  void bump() { number().fetch_add(1, std::memory_order_acq_rel); }

 private:
  ChangeCounter(Fd memory, std::uint64_t* number) : memory_(std::move(memory)), number_(number) {}
  std::atomic_ref<std::uint64_t> number() const { return std::atomic_ref<std::uint64_t>(*number_); }

  const Fd memory_;
  std::uint64_t* const number_;
};

}  // namespace pvrdma::keep
