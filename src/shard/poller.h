// Poller: which file descriptors are ready (epoll, level-triggered), and whom to tell.
//
// Invariant: after unwatch() returns, the handler is not called for that fd again, not even for readiness
// that the kernel had already reported: each watch has a generation, which travels through epoll and back.
//
// Thread: owned by one thread (the shard).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace pvrdma::shard {

struct Readiness {
  bool readable = false;  // hang-up and error count as both
  bool writable = false;
};

// kNone: nothing but an error or a hang-up of both directions, which every interest is told of.
enum class Interest : std::uint8_t { kRead, kWrite, kBoth, kNone };

class FdHandler {
 public:
  virtual ~FdHandler() = default;
  // May watch, change and unwatch any fd, its own included, and close it after unwatch() or before.
  virtual void on_fd_ready(int fd, Readiness ready) = 0;
};

class Poller {
 public:
  // Error: no epoll instance to be had (errno).
  static Result<std::unique_ptr<Poller>> create();

  // `fd` and `handler` are borrowed until unwatch(). An fd is watched once. Error: epoll_ctl's errno, for
  // example ENOSPC at the user's limit of watches.
  Result<void> watch(int fd, Interest interest, FdHandler& handler);
  void change(int fd, Interest interest);
  // For an fd that was closed since, too, as long as its number is not watched anew.
  void unwatch(int fd);

  // Waits for `timeout` at most (0: not at all; Duration::max(): for ever) and calls the handlers of what is
  // ready, a bounded number of them. Returns how many it called.
  std::size_t wait(Duration timeout);

  std::size_t watch_count() const { return watch_count_; }

 private:
  struct Watch {
    FdHandler* handler = nullptr;  // null: this fd number is not watched
    std::uint32_t generation = 0;
  };

  explicit Poller(Fd epoll) : epoll_(std::move(epoll)) {}

  Fd epoll_;
  std::vector<Watch> watches_;  // by fd number
  std::size_t watch_count_ = 0;
};

}  // namespace pvrdma::shard
