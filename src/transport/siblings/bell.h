// Bell: wakes a shard that sleeps because it has found nothing in its rings.
//
// The sleeper says that it sleeps, fences, and looks at its rings once more. A sibling writes to a ring,
// fences, and looks whether the shard sleeps. So at least one of the two sees the other, and no message waits
// for a shard that sleeps. Nothing here blocks.
//
// Thread: lie_down(), get_up() the sleeper; ring() any.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "transport/siblings/fences.h"

namespace pvrdma::transport::siblings {

class Bell {
 public:
  // Errors: out of file descriptors and the like (errno).
  static Result<std::unique_ptr<Bell>> create() {
    Fd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!fd) return fail_errno(errno, "cannot make the bell of a shard");
    return std::unique_ptr<Bell>(new Bell(std::move(fd)));
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  // Readable when it was rung.
  int fd() const { return fd_.get(); }

  // After this call the sleeper looks at everything that it waits for, and sleeps only if it finds nothing.
  void lie_down() {
    asleep_.store(1, std::memory_order_relaxed);
    full_fence();
  }
  // The sleeper is awake, or did not sleep after all. Empties the eventfd in either case: one that rang for
  // an earlier sleep may have written only now. It then wakes the sleeper once for nothing.
  void get_up() {
    asleep_.store(0, std::memory_order_relaxed);
    std::uint64_t rung = 0;
    while (::read(fd_.get(), &rung, sizeof(rung)) < 0 && errno == EINTR) {
    }
  }

  // Called after a full_fence() that follows the stores of which the sleeper is to know. Returns whether it
  // slept.
  bool ring() {
    if (asleep_.load(std::memory_order_relaxed) == 0) return false;
    if (asleep_.exchange(0, std::memory_order_relaxed) == 0) return false;  // another one has rung
    const std::uint64_t one = 1;
    while (::write(fd_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }  // EAGAIN: it is full, and therefore readable
    return true;
  }

 private:
  explicit Bell(Fd fd) : fd_(std::move(fd)) {}

  const Fd fd_;  // an eventfd
  alignas(64) std::atomic<std::uint32_t> asleep_ = 0;
};

}  // namespace pvrdma::transport::siblings
