// ChangeCounter: a number in memory that outlives the process, for who must know whether what was written
// down about something is still true: it is when the number is the one that was written down with it.
//
// Layout: a memfd of one page, the number in its first 8 bytes. Thread: bump() one, value() any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::keep {

class ChangeCounter {
 public:
  // `earlier`: that of another process, to go on with; empty: a new one, which begins at 0. Errors: what the
  // system calls said; EINVAL: `earlier` is none.
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
