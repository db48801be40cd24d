// Scheduler: which QPs of an engine have work now, which wait for a time, and which for a path. Thread:
// shard-owned.
//
// No list allocates after reserve(): a QP is at most once in each.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/time.h"
#include "verbs/queue_pair.h"

namespace pvrdma::verbs {

class Scheduler {
 public:
  // Room for `qp_count` QPs; called when a QP is created.
  void reserve(std::size_t qp_count) { timers_.reserve(qp_count); }

  void make_ready(QueuePair& qp) { ready_.append(qp); }
  // The oldest ready QP, no longer ready; null when there is none.
  QueuePair* take_ready() { return ready_.take(); }
  bool any_ready() const { return !ready_.empty(); }

  // The path took nothing of what the QP wanted to send.
  void wait_for_path(QueuePair& qp) { waiting_.append(qp); }
  // Makes all QPs ready that wait for a path, in the order in which they began to wait.
  void wake_waiting();

  // Wakes the QP at `when` or, if it is armed already, at whichever is armed: the QP looks at its own
  // deadlines when it is woken and arms again, which makes moving a deadline later free.
  void arm(QueuePair& qp, Instant when);
  // One QP whose time has come, no longer armed; null when there is none.
  QueuePair* take_due(Instant now);
  Instant next_deadline() const { return timers_.empty() ? Instant::never() : timers_.front().when; }

  // Drops the QP from all lists.
  void forget(QueuePair& qp);
  // The same for all QPs that `gone` picks, in one pass. For commands only.
  void forget_if(const std::function<bool(const QueuePair&)>& gone);

 private:
  struct Timer {
    Instant when;
    QueuePair* qp;
    friend bool operator>(const Timer& a, const Timer& b) { return a.when > b.when; }
  };

  // QPs in order, linked through the member `next`; `listed` says whether a QP is in it.
  template <QueuePair* QueuePair::*next, bool QueuePair::*listed>
  class Queue {
   public:
    bool empty() const { return first_ == nullptr; }
    void append(QueuePair& qp);
    QueuePair* take();  // null when empty
    void drop_if(const std::function<bool(const QueuePair&)>& gone);

   private:
    QueuePair* first_ = nullptr;
    QueuePair* last_ = nullptr;
  };

  Queue<&QueuePair::next_ready, &QueuePair::is_ready> ready_;
  Queue<&QueuePair::next_waiting, &QueuePair::is_waiting> waiting_;
  std::vector<Timer> timers_;  // min-heap by time
};

template <QueuePair* QueuePair::*next, bool QueuePair::*listed>
inline void Scheduler::Queue<next, listed>::append(QueuePair& qp) {
  if (qp.*listed) return;
  qp.*listed = true;
  qp.*next = nullptr;
  (last_ == nullptr ? first_ : last_->*next) = &qp;
  last_ = &qp;
}

template <QueuePair* QueuePair::*next, bool QueuePair::*listed>
inline QueuePair* Scheduler::Queue<next, listed>::take() {
  QueuePair* qp = first_;
  if (qp == nullptr) return nullptr;
  first_ = qp->*next;
  if (first_ == nullptr) last_ = nullptr;
  qp->*next = nullptr;
  qp->*listed = false;
  return qp;
}

}  // namespace pvrdma::verbs
