// Poller: finds ready file descriptors (epoll, level-triggered) and calls their handlers.
//
// Invariant: after unwatch() returns, the handler is not called for that fd again, even if the kernel had
// already reported it as ready. Each watch has a generation, which travels through epoll and back.
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
  bool readable = false;  // a hang-up or error counts as both
  bool writable = false;
};

// kNone: only an error or a hang-up of both directions, which every interest includes.
enum class Interest : std::uint8_t { kRead, kWrite, kBoth, kNone };

class FdHandler {
 public:
  virtual ~FdHandler() = default;
  // May watch, change and unwatch any fd, including its own, and close it before or after unwatch().
  virtual void on_fd_ready(int fd, Readiness ready) = 0;
  // Its name for the log: "adapter web1".
  virtual std::string what() const = 0;
};

class Poller {
 public:
  // Error: no epoll instance is available (errno).
  static Result<std::unique_ptr<Poller>> create();

  // `fd` and `handler` are borrowed until unwatch(). An fd can be watched only once. Error: epoll_ctl's
  // errno, for example ENOSPC at the user's limit of watches.
  Result<void> watch(int fd, Interest interest, FdHandler& handler);
  void change(int fd, Interest interest);
  // Also allowed for an fd that has been closed, until its number is watched again.
  void unwatch(int fd);

  // Waits for at most `timeout` (0: not at all; Duration::max(): for ever) until an fd is ready. Returns the
  // number of ready fds, which is bounded.
  std::size_t collect(Duration timeout);
  // Calls the handler of the `index`-th ready fd. False: its watch has ended meanwhile.
  bool call(std::size_t index);
  // The what() of that fd's handler, unless its watch has ended.
  std::string what(std::size_t index) const;
  // Collects and calls. Returns the number of called handlers.
  std::size_t wait(Duration timeout);

  std::size_t watch_count() const { return watch_count_; }

 private:
  struct Watch {
    FdHandler* handler = nullptr;  // null: this fd number is not watched
    std::uint32_t generation = 0;
  };

  Result<void> try_watch(int fd, Interest interest, FdHandler& handler);

  explicit Poller(Fd epoll) : epoll_(std::move(epoll)) {}

  // The handler of the `index`-th ready fd; null if its watch has ended.
  FdHandler* handler_of(std::size_t index) const;

  static constexpr std::size_t kEventsPerWait = 64;
  Fd epoll_;
  std::array<epoll_event, kEventsPerWait> ready_;
  std::vector<Watch> watches_;  // by fd number
  std::size_t watch_count_ = 0;
};

}  // namespace pvrdma::shard
