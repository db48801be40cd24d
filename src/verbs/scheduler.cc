#include "verbs/scheduler.h"

#include <algorithm>
#include <functional>
#include <utility>

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
  if (qp.is_ready || qp.armed_for != Instant::never()) {
    forget_if([&](const QueuePair& each) { return &each == &qp; });
  }
}

void Scheduler::forget_if(const std::function<bool(const QueuePair&)>& gone) {
  std::erase_if(timers_, [&](const Timer& timer) {
    if (!gone(*timer.qp)) return false;
    timer.qp->armed_for = Instant::never();
    return true;
  });
  std::make_heap(timers_.begin(), timers_.end(), std::greater<>{});

  QueuePair* ready = std::exchange(first_ready_, nullptr);
  last_ready_ = nullptr;
  while (ready != nullptr) {
    QueuePair& qp = *ready;
    ready = qp.next_ready;
    qp.is_ready = false;
    qp.next_ready = nullptr;
    if (!gone(qp)) make_ready(qp);
  }
}

}  // namespace pvrdma::verbs
