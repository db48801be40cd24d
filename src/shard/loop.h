// Loop: one shard, that is, one thread with everything it owns.
//
// A turn: wait for file descriptors, tell their handlers (a doorbell is executed right there), run what was
// posted, give every Pollable a run(), fire the timers that are due. Then wait again: not at all while one
// says that there is work, for a short spin afterwards (a vCPU's next doorbell is usually near, and waking up
// costs more than the doorbell), then in the kernel until an fd or the earliest deadline, or while a Pollable
// polls, for ever longer (pace.h). An idle shard in which nothing polls costs nothing.
//
// Stopping: stop() ends run() after the turn under way; the mailbox takes no more, what it had taken is run,
// run() returns. The owner then destroys what the shard owns, on the same thread, and the loop last.
//
// Thread: post() and stop() any thread; everything else the shard's own, or before run().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "shard/mailbox.h"
#include "shard/pace.h"
#include "shard/poller.h"
#include "shard/task.h"
#include "shard/turn_watch.h"

namespace pvrdma::shard {

// Something that makes progress without an fd being ready, and has deadlines.
class Pollable {
 public:
  virtual ~Pollable() = default;
  // A bounded amount of work. True: there is more to do, come back without waiting. Each turn another one of
  // the loop's Pollables comes first.
  virtual bool run(Instant now) = 0;
  // Fires what is due. Called when now >= next_deadline().
  virtual void on_time(Instant now) = 0;
  // Instant::never() = nothing to wait for. In the past: there is more to do, which another one left behind
  // this one's back.
  virtual Instant next_deadline() const = 0;
  // It looks, in run(), at memory whose changes nobody announces: the shard must come back by itself, ever
  // more rarely while run() finds nothing (true from run() is how it says that it found something). Asked
  // before each sleep.
  virtual bool polls() const = 0;
  // What it is, for the log: "adapter web1".
  virtual std::string what() const = 0;
};

struct LoopConfig {
  Duration spin =
      std::chrono::microseconds(50);        // after work, at most; 0: never; Duration::max(): never sleep
  std::size_t mailbox_tasks = 1024;         // waiting at most
  bool never_sleeps_while_polling = false;  // the shard's thread has a core to itself
};

struct LoopCounters {
  std::uint64_t turns = 0;
  std::uint64_t sleeps = 0;         // turns that were willing to wait until something is announced or due
  std::uint64_t timed_looks = 0;    // turns that were for less, as something polls
  std::uint64_t tasks = 0;          // posted by other threads and run
  std::uint64_t long_turns = 0;     // TurnWatch::kLongTurn or longer: everybody waited
  std::uint64_t long_turns_us = 0;  // how long they were, all together
};

class Loop final : private FdHandler {
 public:
  // `clock` is borrowed. Errors: out of file descriptors and the like (errno).
  static Result<std::unique_ptr<Loop>> create(const LoopConfig& config, const Clock& clock);
  ~Loop() override;  // nothing is watched and no Pollable is left
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Makes the calling thread the shard until stop().
  void run();
  // Instead, for who drives the shard himself: one turn, which waits for `wait` at most. True: there was
  // work, or there is more.
  bool turn(Duration wait);
  void stop();

  // False: the mailbox is full or the shard has stopped, and the task is destroyed unrun.
  [[nodiscard]] bool post(Task task) { return mailbox_->post(std::move(task)); }

  // As Poller's (poller.h).
  Result<void> watch(int fd, Interest interest, FdHandler& handler) {
    return poller_->watch(fd, interest, handler);
  }
  void change(int fd, Interest interest) { poller_->change(fd, interest); }
  void unwatch(int fd) { poller_->unwatch(fd); }

  // Borrowed until remove(). Not from inside a Pollable's call.
  void add(Pollable& pollable);
  void remove(Pollable& pollable);

  const LoopCounters& counters() const { return counters_; }

 private:
  Loop(const LoopConfig& config, const Clock& clock, std::unique_ptr<Poller> poller,
       std::unique_ptr<Mailbox> mailbox);

  struct Done {
    bool worked = false;  // there was something to do
    bool more = false;    // there is
  };
  Done work(Pace::Sleep wait);
  bool asks_kernel();
  bool run_pollables(Instant now);
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
  TurnWatch turn_watch_;
  Instant last_asked_{};               // the kernel, by a turn that did not sleep
  std::uint32_t watched_closely_ = 0;  // turns to come in which the clock is read after every Pollable
};

}  // namespace pvrdma::shard
