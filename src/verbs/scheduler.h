// Scheduler: which QPs of an engine have work now, which wait for a time, and which for a path. Thread:
// shard-owned.
//
// A guest may have tens of thousands of QPs: whatever happens to one costs the same however many others
// there are, or log of their number (timers). A QP is at most once in each list and knows its place there, so
// nothing allocates after reserve().
#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"
#include "verbs/queue_link.h"
#include "verbs/queue_pair.h"

namespace pvrdma::verbs {

template <QueueLink<QueuePair> QueuePair::*link>
using QpQueue = LinkedQueue<QueuePair, link>;

class Scheduler {
 public:
  // Room for `qp_count` QPs; called when a QP is created.
  void reserve(std::size_t qp_count) {
    if (qp_count > timers_.capacity()) timers_.reserve(2 * qp_count);
  }

  void make_ready(QueuePair& qp) { (woken_.empty() && behind_.empty() ? ready_ : behind_).append(qp); }
  // The oldest ready QP, no longer ready; null when there is none.
  QueuePair* take_ready();
  bool any_ready() const {
    return !ready_.empty() || !woken_.empty() || !behind_.empty() || (wake_again_ && !waiting_.empty());
  }

  // The path took nothing of what the QP wanted to send.
  void wait_for_path(QueuePair& qp) { waiting_.append(qp); }
  // Makes all QPs ready that wait for a path, in the order in which they began to wait, behind those that are
  // ready. While some woken before have not had their turn, the others wait for them.
  void wake_waiting();

  // The same for this QP alone, if it waits.
  void wake(QueuePair& qp) {
    if (!qp.waiting_link.linked()) return;
    qp.waiting_link.unlink();
    make_ready(qp);
  }

  // Wakes the QP at `when` or, if it is armed already, at whichever is earlier: the QP looks at its own
  // deadlines when it is woken and arms again, which makes moving a deadline later free.
  void arm(QueuePair& qp, Instant when);
  // One QP whose time has come, no longer armed; null when there is none.
  QueuePair* take_due(Instant now);
  Instant next_deadline() const { return timers_.empty() ? Instant::never() : timers_.front().when; }

  // Drops the QP from all lists.
  void forget(QueuePair& qp);

 private:
  struct Timer {
    Instant when;
    QueuePair* qp;
  };

  void disarm(QueuePair& qp);
  // Puts `timer` at `place` or, as order demands, nearer to the root or to the leaves.
  void settle_up(std::size_t place, Timer timer);
  void settle_down(std::size_t place, Timer timer);
  void set(std::size_t place, Timer timer);

  // Ready are, in this order:
  QpQueue<&QueuePair::ready_link> ready_;
  QpQueue<&QueuePair::waiting_link> woken_;
  QpQueue<&QueuePair::ready_link> behind_;  // made ready since woken_ was filled

  QpQueue<&QueuePair::waiting_link> waiting_;  // for a path
  bool wake_again_ = false;                    // when woken_ is empty
  std::vector<Timer> timers_;                  // a binary heap; each QP knows its place
};

}  // namespace pvrdma::verbs
