#include "verbs/scheduler.h"

#include <algorithm>
#include <functional>

namespace pvrdma::verbs {

template <QueuePair* QueuePair::*next, bool QueuePair::*listed>
void Scheduler::Queue<next, listed>::drop_if(const std::function<bool(const QueuePair&)>& gone) {
  Queue kept;
  while (QueuePair* qp = take()) {
    if (!gone(*qp)) kept.append(*qp);
  }
  *this = kept;
}

void Scheduler::wake_waiting() {
  while (QueuePair* qp = waiting_.take()) ready_.append(*qp);
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
  if (qp.is_ready || qp.is_waiting || qp.armed_for != Instant::never()) {
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

  ready_.drop_if(gone);
  waiting_.drop_if(gone);
}

}  // namespace pvrdma::verbs
