// Poller: which file descriptors are ready (epoll, level-triggered), and whom to tell.
//
// Invariant: after unwatch() returns, the handler is not called for that fd again, not even for readiness
// that the kernel had already reported: each watch has a generation, which travels through epoll and back.
//
// Thread: owned by one thread (the shard).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/epoll.h>
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
  // What it is, for the log: "adapter web1".
  virtual std::string what() const = 0;
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

  // Waits for `timeout` at most (0: not at all; Duration::max(): for ever) until something is ready, and
  // tells how much: a bounded number.
  std::size_t collect(Duration timeout);
  // Calls the handler of the `index`-th of it. False: its watch has ended since.
  bool call(std::size_t index);
  // Its handler's what(), unless its watch has ended.
  std::string what(std::size_t index) const;
  // Both together. Returns how many handlers it called.
  std::size_t wait(Duration timeout);

  std::size_t watch_count() const { return watch_count_; }

 private:
  struct Watch {
    FdHandler* handler = nullptr;  // null: this fd number is not watched
    std::uint32_t generation = 0;
  };

  Result<void> try_watch(int fd, Interest interest, FdHandler& handler);

  explicit Poller(Fd epoll) : epoll_(std::move(epoll)) {}

  // The handler of the `index`-th of what is ready; null when its watch has ended.
  FdHandler* handler_of(std::size_t index) const;

  static constexpr std::size_t kEventsPerWait = 64;
  Fd epoll_;
  std::array<epoll_event, kEventsPerWait> ready_;
  std::vector<Watch> watches_;  // by fd number
  std::size_t watch_count_ = 0;
};

}  // namespace pvrdma::shard
