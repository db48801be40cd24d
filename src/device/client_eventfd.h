// ClientEventfd: an eventfd of the client, and the way in which it is signalled.
//
// During a signal the kernel calls everything that watches the eventfd. A client can hang 200,000 epoll
// instances on it, and then a signal takes tens of milliseconds. So signals are timed. When one has used
// kSlow of the CPU, the following ones are made by a thread of the client's ReaperQueue, until none has been
// slow for kSlowFor. Those that wait for the thread count as one. The CPU time is asked for, which costs a
// system call, only after a signal that lasted for kSlow: it may have waited for a core. Without a queue
// (tests, tools) each signal is made in place.
//
// Thread: shard-owned.
#pragma once

#include <atomic>
#include <memory>

#include "base/client_fd.h"
#include "base/time.h"

namespace pvrdma::device {

class ClientEventfd {
 public:
  static constexpr Duration kSlow = std::chrono::milliseconds(1);
  static constexpr Duration kSlowFor = std::chrono::minutes(1);

  enum class Signal {
    kFailed,      // the kernel had no memory for it
    kMade,        // or given to the thread
    kMadeSlowly,  // the next ones are given to the thread
  };

  // What the shard and the signals that it has given to the thread share.
  struct Shared {
    std::atomic<bool> waits = false;     // a signal waits for the thread
    std::atomic<bool> was_slow = false;  // one on the thread was
  };

  ClientEventfd() = default;
  // Throws std::bad_alloc.
  explicit ClientEventfd(ClientFd eventfd);

  explicit operator bool() const { return static_cast<bool>(eventfd_); }

  // Never blocks, whatever the client does with its descriptor (eventfd_signal.h).
  Signal signal(const Clock& clock);

 private:
  bool give_to_thread() const;
  Signal signal_here(const Clock& clock);

  ClientFd eventfd_;
  std::shared_ptr<Shared> shared_;
  Instant slow_until_{};
  bool lasted_long_ = false;  // the last signal; the next one's CPU time is measured
};

}  // namespace pvrdma::device
