#include "shard/loop.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <utility>

#include "base/check.h"

namespace pvrdma::shard {
namespace {

constexpr std::uint32_t kTurnsWatchedClosely = 4096;

// While most turns only look at memory, the kernel is asked after kAskedApart if descriptors were ready
// within kReadyLately, for instance those of lanes to other hosts. Otherwise it is asked less often where
// asking costs much, as in a virtual machine: at most a kAskingShare-th of the time is spent on it.
constexpr Duration kAskedApart = std::chrono::microseconds(2);
constexpr Duration kAskedApartMost = std::chrono::microseconds(16);
constexpr Duration kReadyLately = std::chrono::milliseconds(1);
constexpr int kAskingShare = 8;
constexpr int kCostsKept = 8;  // one of these costs is the newest one

}  // namespace

Result<std::unique_ptr<Loop>> Loop::create(const LoopConfig& config, const Clock& clock) {
  auto poller = Poller::create();
  if (!poller) return Failure(std::move(poller).error());
  auto mailbox = Mailbox::create(config.mailbox_tasks);
  if (!mailbox) return Failure(std::move(mailbox).error());
  std::unique_ptr<Loop> loop(new Loop(config, clock, *std::move(poller), *std::move(mailbox)));
  auto watched = loop->poller_->watch(loop->mailbox_->wake_fd(), Interest::kRead, *loop);
  if (!watched) return Failure(std::move(watched).error());
  return loop;
}

Loop::Loop(const LoopConfig& config, const Clock& clock, std::unique_ptr<Poller> poller,
           std::unique_ptr<Mailbox> mailbox)
    : pace_({config.spin, config.never_sleeps_while_polling}),
      clock_(clock),
      poller_(std::move(poller)),
      mailbox_(std::move(mailbox)),
      blame_(clock),
      turn_watch_(config.shard, clock, blame_),
      window_began_(clock.now()) {}

Loop::~Loop() {
  // The loop's own mailbox is the one allowed watch.
  PVRDMA_CHECK(poller_->watch_count() <= 1, "a loop outlives what it watches");
  PVRDMA_CHECK(pollables_.empty(), "a loop outlives what it runs");
}

void Loop::run() {
  const Instant start = clock_.now();
  turn_watch_.begin(start);
  window_began_ = start;
  pace_.worked(start, start);
  Pace::Sleep wait;
  while (!stop_.load(std::memory_order_acquire)) {
    const Done done = work(wait);
    const Instant began = turn_watch_.began();
    const Instant now = clock_.now();
    end_turn(now);
    if (done.worked) pace_.worked(began, now);
    wait = done.more ? Pace::Sleep{} : waiting_time(now);
  }
  mailbox_->close();
  counters_.tasks += mailbox_->run_posted();
}

void Loop::stop() {
  stop_.store(true, std::memory_order_release);
  wake();
}

void Loop::add(Pollable& pollable) {
  PVRDMA_CHECK(!in_pollables_, "pollables come and go between turns");
  pollables_.push_back(&pollable);
}

void Loop::remove(Pollable& pollable) {
  PVRDMA_CHECK(!in_pollables_, "pollables come and go between turns");
  std::erase(pollables_, &pollable);
}

bool Loop::turn(Duration wait) {
  turn_watch_.begin(clock_.now());
  const Done done = work({wait, false});
  end_turn(clock_.now());
  return done.worked;
}

// The clock is read once for the Pollables. Other readings happen only where their cost is small: after a
// sleep, after each descriptor, and after a Pollable that did much work.
Loop::Done Loop::work(Pace::Sleep wait) {
  ++counters_.turns;
  const bool sleeps = wait.longest != Duration{0};
  if (sleeps) ++(wait.timed_look ? counters_.timed_looks : counters_.sleeps);
  std::size_t ready = 0;
  const bool asks = sleeps || asks_kernel();
  if (asks) ready = poller_->collect(wait.longest);
  if (sleeps) wake_up(clock_.now());
  std::size_t called = 0;
  Instant now;
  for (std::size_t i = 0; i < ready; ++i) {
    called += poller_->call(i) ? 1 : 0;
    now = clock_.now();
    turn_watch_.ran(now, [&] { return "for a descriptor of " + poller_->what(i); });
  }
  if (ready == 0) now = clock_.now();
  if (ready != 0) last_ready_ = now;
  if (asks && !sleeps && ready == 0) note_cost(now - turn_watch_.began());
  const bool more = run_pollables(now);
  return {called != 0 || more, more};
}

// Whether a turn that does not sleep asks the kernel for ready descriptors. While something polls, or was
// found in memory a moment ago, most turns only look at memory, and asking the kernel costs several times as
// much.
bool Loop::asks_kernel() {
  const Instant now = turn_watch_.began();
  if ((pace_.polls() || now < memory_until_) && now - last_asked_ < asked_apart(now)) return false;
  last_asked_ = now;
  return true;
}

Duration Loop::asked_apart(Instant now) const {
  if (now - last_ready_ < kReadyLately) return kAskedApart;
  return std::clamp(asking_costs_ * kAskingShare, kAskedApart, kAskedApartMost);
}

// A mean of the last costs. A turn that the kernel has interrupted counts for no more than the most.
void Loop::note_cost(Duration cost) {
  asking_costs_ += (std::min(cost, kAskedApartMost) - asking_costs_) / kCostsKept;
}

// The turn has waited since it began.
void Loop::wake_up(Instant now) {
  asleep_ += now - turn_watch_.began();
  counters_.asleep_us = microseconds_of(asleep_);
  note_busy(now);
  turn_watch_.woke_up(now);
}

void Loop::note_busy(Instant now) {
  const Duration time = now - window_began_;
  if (time < std::chrono::seconds(1)) return;
  const double asleep = static_cast<double>((asleep_ - std::exchange(asleep_before_, asleep_)).count());
  busy_percent_ =
      static_cast<std::uint32_t>(std::lround(100 - 100 * asleep / static_cast<double>(time.count())));
  window_began_ = now;
}

void Loop::end_turn(Instant now) {
  bool among = false;
  turn_watch_.ran(now, [&] {
    among = true;
    return fmt::format("among {} with no more to do", pollables_.size());
  });
  if (turn_watch_.end(now)) {
    if (among)
      // The slow Pollable is unknown. The next time it will be known.
      watched_closely_ = kTurnsWatchedClosely;
    counters_.long_turns = turn_watch_.long_turns();
    counters_.long_turns_us = turn_watch_.long_turns_us();
    counters_.long_turns_cpu_us = turn_watch_.long_turns_cpu_us();
    counters_.long_turns_unblamed = turn_watch_.long_turns_unblamed();
  }
  note_busy(now);
  turn_watch_.begin(now);
}

bool Loop::run_pollables(Instant now) {
  in_pollables_ = true;
  bool worked = false;
  // No Pollable is always first or always last, because one adapter's output is another's work.
  const std::size_t count = pollables_.size();
  const bool closely = watched_closely_ != 0;
  if (closely) --watched_closely_;
  if (++first_pollable_ >= count) first_pollable_ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = first_pollable_ + i;
    Pollable& pollable = *pollables_[index < count ? index : index - count];
    bool had_much = pollable.run(now);
    if (pollable.next_deadline() <= now) {
      pollable.on_time(now);
      had_much = true;
    }
    worked |= had_much;
    if (had_much || closely)
      turn_watch_.ran(clock_.now(), [&] { return "in the turn of " + pollable.what(); });
  }
  in_pollables_ = false;
  return worked;
}

Pace::Sleep Loop::waiting_time(Instant now) {
  if (pace_.spins(now)) return {};
  Instant deadline = Instant::never();
  bool polls = false;
  for (const Pollable* pollable : pollables_) {
    deadline = std::min(deadline, pollable->next_deadline());
    polls = polls || pollable->polls();
  }
  const Pace::Sleep sleep = pace_.sleep(now, deadline, polls);
  if (sleep.longest == Duration{0}) return sleep;
  for (Pollable* pollable : pollables_) {
    if (!pollable->may_sleep()) return {};
  }
  return sleep;
}

void Loop::on_fd_ready(int /*fd*/, Readiness /*ready*/) {
  counters_.tasks += mailbox_->run_posted([this](const Task& task) {
    turn_watch_.ran(clock_.now(), [&] { return std::string("in ") + task.what(); });
  });
}

}  // namespace pvrdma::shard
