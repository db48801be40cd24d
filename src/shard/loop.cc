#include "shard/loop.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pvrdma::shard {

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
    : spin_(config.spin), clock_(clock), poller_(std::move(poller)), mailbox_(std::move(mailbox)) {}

Loop::~Loop() {
  PVRDMA_CHECK(poller_->watch_count() <= 1, "a loop outlives what it watches");  // 1: its own mailbox
  PVRDMA_CHECK(pollables_.empty(), "a loop outlives what it runs");
}

void Loop::run() {
  Instant last_work = clock_.now();
  Duration wait{0};
  bool idle = false;
  while (!stop_.load(std::memory_order_acquire)) {
    const bool worked = turn(wait);
    if (worked) {
      const Instant now = clock_.now();
      if (idle && wait == Duration{0}) spin_.spin_paid();
      if (idle && wait != Duration{0}) spin_.slept(now - last_work);
      last_work = now;
    }
    idle = !worked;
    wait = worked ? Duration{0} : waiting_time(last_work);
  }
  mailbox_->close();
  counters_.tasks += mailbox_->run_posted();
}

void Loop::stop() {
  stop_.store(true, std::memory_order_release);
  mailbox_->wake();
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
  ++counters_.turns;
  if (wait != Duration{0}) ++counters_.sleeps;
  const bool fds_ready = poller_->wait(wait) != 0;
  const bool more = run_pollables(clock_.now());
  return fds_ready || more;
}

bool Loop::run_pollables(Instant now) {
  in_pollables_ = true;
  bool worked = false;
  // Nobody is always first or always last: what one adapter sends is another's work.
  const std::size_t count = pollables_.size();
  if (++first_pollable_ >= count) first_pollable_ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = first_pollable_ + i;
    Pollable& pollable = *pollables_[index < count ? index : index - count];
    if (pollable.run(now)) worked = true;
    if (pollable.next_deadline() <= now) {
      pollable.on_time(now);
      worked = true;
    }
  }
  in_pollables_ = false;
  return worked;
}

Duration Loop::waiting_time(Instant last_work) const {
  const Instant now = clock_.now();
  const Duration spin = spin_.window();
  if (spin == Duration::max() || now - last_work < spin) return Duration{0};
  Instant deadline = Instant::never();
  for (const Pollable* pollable : pollables_) deadline = std::min(deadline, pollable->next_deadline());
  if (deadline == Instant::never()) return Duration::max();
  return std::max(Duration{0}, deadline - now);
}

void Loop::on_fd_ready(int /*fd*/, Readiness /*ready*/) {
  counters_.tasks += mailbox_->run_posted();
}

}  // namespace pvrdma::shard
