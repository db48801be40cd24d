// Loop: one shard, that is, one thread with everything that it owns.
//
// A turn: wait for file descriptors, call their handlers (a doorbell is executed right there), run posted
// tasks, run every Pollable, fire the timers that are due. Then the shard waits again. It does not wait while
// a Pollable has work. After work it spins for a short time, because a vCPU's next doorbell usually follows
// soon and a wake-up costs more than the doorbell. Then it waits in the kernel until an fd is ready or the
// earliest deadline. While a Pollable polls, these waits are shorter, but grow longer (pace.h). An idle shard
// in which nothing polls costs nothing.
//
// Stopping: stop() ends run() after the current turn. The mailbox accepts no more tasks, run() executes the
// accepted ones and returns. The owner then destroys the shard's objects, on the same thread, and the loop
// last.
//
// Thread: post(), wake() and stop() from any thread; everything else on the shard's own, or before run().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/blame.h"
#include "base/result.h"
#include "base/time.h"
#include "shard/mailbox.h"
#include "shard/pace.h"
#include "shard/poller.h"
#include "shard/task.h"
#include "shard/turn_watch.h"

namespace pvrdma::shard {

// Makes progress without a ready fd, and has deadlines.
class Pollable {
 public:
  virtual ~Pollable() = default;
  // Does a bounded amount of work. Returns true if there is more: the loop then calls again without waiting.
  // Each turn begins with another one of the loop's Pollables.
  virtual bool run(Instant now) = 0;
  // Fires the timers that are due. Called when now >= next_deadline().
  virtual void on_time(Instant now) = 0;
  // Instant::never() means no deadline. A deadline in the past means that there is new work, which another
  // Pollable caused after this one's run().
  virtual Instant next_deadline() const = 0;
  // Whether run() looks at memory whose changes nobody announces. The shard must then wake up by itself, less
  // often the longer run() finds nothing. run() returns true if it found something. Asked before each sleep.
  virtual bool polls() const = 0;
  // Asked before each sleep, after everything else. False: there is work after all, so the shard does not
  // sleep. For work that other threads announce only to a shard that sleeps.
  virtual bool may_sleep() { return true; }
  // Its name for the log: "adapter web1".
  virtual std::string what() const = 0;
};

struct LoopConfig {
  std::uint32_t shard = 0;  // its number, for the log
  // The longest spin after work; 0: never spins; Duration::max(): never sleeps.
  Duration spin = std::chrono::microseconds(50);
  std::size_t mailbox_tasks = 1024;         // how many may wait
  bool never_sleeps_while_polling = false;  // the shard's thread has a core to itself
};

struct LoopCounters {
  std::uint64_t turns = 0;
  std::uint64_t sleeps = 0;               // turns that were ready to wait until an event or a deadline
  std::uint64_t timed_looks = 0;          // turns whose wait was shortened because something polls
  std::uint64_t asleep_us = 0;            // how long these turns waited
  std::uint64_t tasks = 0;                // posted by other threads and run
  std::uint64_t long_turns = 0;           // TurnWatch::kLongTurn or longer: everything else waited
  std::uint64_t long_turns_us = 0;        // total length of the long turns
  std::uint64_t long_turns_cpu_us = 0;    // of it the CPU time of the shard; in the rest, the shard waited
  std::uint64_t long_turns_unblamed = 0;  // long turns for which no adapter was blamed
};

class Loop final : private FdHandler {
 public:
  // `clock` is borrowed. Errors: out of file descriptors and the like (errno).
  static Result<std::unique_ptr<Loop>> create(const LoopConfig& config, const Clock& clock);
  ~Loop() override;  // Requires that nothing is watched and no Pollable is left.
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Makes the calling thread the shard until stop().
  void run();
  // Runs one turn, for a caller that drives the shard itself instead of calling run(). Waits for at most
  // `wait`. Returns true if there was work, or there is more.
  bool turn(Duration wait);
  void stop();

  // False: the mailbox is full or the shard has stopped, and the task is destroyed without running.
  [[nodiscard]] bool post(Task task, Room room = Room::kShared) {
    return mailbox_->post(std::move(task), room);
  }
  // Soon a turn begins, for a Pollable that other threads leave something. Never refused.
  void wake() { mailbox_->wake(); }

  // As Poller::watch() and the rest of poller.h.
  Result<void> watch(int fd, Interest interest, FdHandler& handler) {
    return poller_->watch(fd, interest, handler);
  }
  void change(int fd, Interest interest) { poller_->change(fd, interest); }
  void unwatch(int fd) { poller_->unwatch(fd); }

  // Borrowed until remove(). Must not be called by a Pollable.
  void add(Pollable& pollable);
  void remove(Pollable& pollable);
  // A Pollable has found in memory what others announce only to a shard that sleeps. More is likely to come
  // this way. So for a while, most turns that do not sleep only look at memory, as while something polls.
  void found_in_memory(Instant now) { memory_until_ = now + kMemoryAfterFound; }

  // Who made turns long.
  Blame& blame() { return blame_; }

  const LoopCounters& counters() const { return counters_; }
  // How much of the last full second, or of a longer time without a turn, the shard did not sleep.
  std::uint32_t busy_percent() const { return busy_percent_; }
  // The CPU time of the shard's thread.
  Duration cpu_used() const { return clock_.thread_cpu(); }

 private:
  static constexpr Duration kMemoryAfterFound = std::chrono::microseconds(50);

  Loop(const LoopConfig& config, const Clock& clock, std::unique_ptr<Poller> poller,
       std::unique_ptr<Mailbox> mailbox);

  struct Done {
    bool worked = false;  // there was work
    bool more = false;    // there is more work
  };
  Done work(Pace::Sleep wait);
  bool asks_kernel();
  Duration asked_apart(Instant now) const;
  void note_cost(Duration cost);
  bool run_pollables(Instant now);
  void note_busy(Instant now);
  void wake_up(Instant now);
  void end_turn(Instant now);
  Pace::Sleep waiting_time(Instant now);
  void on_fd_ready(int fd, Readiness ready) override;  // the mailbox
  std::string what() const override { return "the mailbox"; }

  Pace pace_;
  const Clock& clock_;
  const std::unique_ptr<Poller> poller_;
  const std::unique_ptr<Mailbox> mailbox_;
  std::vector<Pollable*> pollables_;
  std::size_t first_pollable_ = 0;  // of the next turn
  bool in_pollables_ = false;
  std::atomic<bool> stop_{false};
  LoopCounters counters_;
  Blame blame_;
  TurnWatch turn_watch_;
  Duration asleep_{0};         // how long turns have waited
  Instant window_began_;       // of the time that busy_percent_ will be about
  Duration asleep_before_{0};  // how long turns have waited before window_began_
  std::uint32_t busy_percent_ = 0;
  Instant last_asked_{};               // when a turn that did not sleep last asked the kernel
  Instant last_ready_{};               // when the kernel last had ready descriptors
  Duration asking_costs_{};            // of a question that finds none, on average
  Instant memory_until_{};             // until when most turns that do not sleep only look at memory
  std::uint32_t watched_closely_ = 0;  // the number of coming turns that read the clock after every Pollable
};

}  // namespace pvrdma::shard
