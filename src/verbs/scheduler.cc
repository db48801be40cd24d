#include "verbs/scheduler.h"

#include <algorithm>

namespace pvrdma::verbs {

QueuePair* Scheduler::take_ready() {
  if (woken_.empty()) {
    ready_.append_all(behind_);
    if (wake_again_) woken_.append_all(waiting_);
    wake_again_ = false;
  }
  QueuePair* qp = ready_.take();
  return qp != nullptr ? qp : woken_.take();
}

void Scheduler::wake_waiting() {
  if (woken_.empty() && behind_.empty()) {
    woken_.append_all(waiting_);
  } else {
    wake_again_ = true;
  }
}

void Scheduler::arm(QueuePair& qp, Instant when) {
  if (qp.armed_for <= when) return;
  std::size_t place = qp.timer_place;
  if (qp.armed_for == Instant::never()) {
    place = timers_.size();
    timers_.push_back({when, &qp});
  }
  qp.armed_for = when;
  settle_up(place, {when, &qp});
}

QueuePair* Scheduler::take_due(Instant now) {
  if (timers_.empty() || timers_.front().when > now) return nullptr;
  QueuePair* qp = timers_.front().qp;
  disarm(*qp);
  return qp;
}

void Scheduler::forget(QueuePair& qp) {
  qp.ready_link.unlink();
  qp.waiting_link.unlink();
  if (qp.armed_for != Instant::never()) disarm(qp);
}

void Scheduler::disarm(QueuePair& qp) {
  qp.armed_for = Instant::never();
  const Timer last = timers_.back();
  timers_.pop_back();
  if (last.qp == &qp) return;
  // Move the last timer of the heap to the free place.
  const std::size_t place = qp.timer_place;
  if (place != 0 && last.when < timers_[(place - 1) / 2].when) {
    settle_up(place, last);
  } else {
    settle_down(place, last);
  }
}

void Scheduler::settle_up(std::size_t place, Timer timer) {
  while (place != 0) {
    const std::size_t parent = (place - 1) / 2;
    if (timers_[parent].when <= timer.when) break;
    set(place, timers_[parent]);
    place = parent;
  }
  set(place, timer);
}

void Scheduler::settle_down(std::size_t place, Timer timer) {
  for (std::size_t child = 2 * place + 1; child < timers_.size(); child = 2 * place + 1) {
    if (child + 1 < timers_.size() && timers_[child + 1].when < timers_[child].when) ++child;
    if (timer.when <= timers_[child].when) break;
    set(place, timers_[child]);
    place = child;
  }
  set(place, timer);
}

void Scheduler::set(std::size_t place, Timer timer) {
  timers_[place] = timer;
  timer.qp->timer_place = static_cast<std::uint32_t>(place);
}

}  // namespace pvrdma::verbs
