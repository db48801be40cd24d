// Scheduler: which QPs of an engine have work now, and which wait for a time. Thread: shard-owned.
//
// Neither list allocates after reserve(): a QP is at most once in each.
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

  void make_ready(QueuePair& qp);
  // The oldest ready QP, no longer ready; null when there is none.
  QueuePair* take_ready();
  bool any_ready() const { return first_ready_ != nullptr; }

  // Wakes the QP at `when` or, if it is armed already, at whichever is armed: the QP looks at its own
  // deadlines when it is woken and arms again, which makes moving a deadline later free.
  void arm(QueuePair& qp, Instant when);
  // One QP whose time has come, no longer armed; null when there is none.
  QueuePair* take_due(Instant now);
  Instant next_deadline() const { return timers_.empty() ? Instant::never() : timers_.front().when; }

  // Drops the QP from both lists.
  void forget(QueuePair& qp);
  // The same for all QPs that `gone` picks, in one pass. For commands only.
  void forget_if(const std::function<bool(const QueuePair&)>& gone);

 private:
  struct Timer {
    Instant when;
    QueuePair* qp;
    friend bool operator>(const Timer& a, const Timer& b) { return a.when > b.when; }
  };

  QueuePair* first_ready_ = nullptr;
  QueuePair* last_ready_ = nullptr;
  std::vector<Timer> timers_;  // min-heap by time
};

}  // namespace pvrdma::verbs
