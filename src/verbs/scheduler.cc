#include "verbs/scheduler.h"

#include <algorithm>
#include <functional>

namespace pvrdma::verbs {

void Scheduler::make_ready(QueuePair& qp) {
  if (qp.is_ready) return;
  qp.is_ready = true;
  qp.next_ready = nullptr;
  (last_ready_ == nullptr ? first_ready_ : last_ready_->next_ready) = &qp;
  last_ready_ = &qp;
}

QueuePair* Scheduler::take_ready() {
  QueuePair* qp = first_ready_;
  if (qp == nullptr) return nullptr;
  first_ready_ = qp->next_ready;
  if (first_ready_ == nullptr) last_ready_ = nullptr;
  qp->next_ready = nullptr;
  qp->is_ready = false;
  return qp;
}

void Scheduler::arm(QueuePair& qp, Instant when) {
  if (qp.armed_for <= when) return;
  if (qp.armed_for != Instant::never()) {
    std::find_if(timers_.begin(), timers_.end(), [&](const Timer& t) { return t.qp == &qp; })->when = when;
    std::make_heap(timers_.begin(), timers_.end(), std::greater<>{});
    qp.armed_for = when;
    return;
  }
  qp.armed_for = when;
  timers_.push_back({when, &qp});
  std::push_heap(timers_.begin(), timers_.end(), std::greater<>{});
}

QueuePair* Scheduler::take_due(Instant now) {
  if (timers_.empty() || timers_.front().when > now) return nullptr;
  std::pop_heap(timers_.begin(), timers_.end(), std::greater<>{});
  QueuePair* qp = timers_.back().qp;
  timers_.pop_back();
  qp->armed_for = Instant::never();
  return qp;
}

void Scheduler::forget(QueuePair& qp) {
  if (qp.armed_for != Instant::never()) {
    std::erase_if(timers_, [&](const Timer& t) { return t.qp == &qp; });
    std::make_heap(timers_.begin(), timers_.end(), std::greater<>{});
    qp.armed_for = Instant::never();
  }
  if (!qp.is_ready) return;
  QueuePair* previous = nullptr;
  for (QueuePair* at = first_ready_; at != nullptr; previous = at, at = at->next_ready) {
    if (at != &qp) continue;
    (previous == nullptr ? first_ready_ : previous->next_ready) = qp.next_ready;
    if (last_ready_ == &qp) last_ready_ = previous;
    break;
  }
  qp.next_ready = nullptr;
  qp.is_ready = false;
}

}  // namespace pvrdma::verbs
