// Scheduler: keeps the QPs of an engine that have work now, that wait for a time, and that wait for a path.
// Thread: shard-owned.
//
// A guest may have tens of thousands of QPs. The cost of an operation on one QP does not depend on their
// number, except for timers, where it grows with the logarithm of that number. A QP is at most once in each
// list and knows its place there, so nothing allocates after reserve().
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
  // Makes room for `qp_count` QPs. Called when a QP is created.
  void reserve(std::size_t qp_count) {
    if (qp_count > timers_.capacity()) timers_.reserve(2 * qp_count);
  }

  void make_ready(QueuePair& qp) { (woken_.empty() && behind_.empty() ? ready_ : behind_).append(qp); }
  // Removes and returns the first ready QP; null if no QP is ready.
  QueuePair* take_ready();
  bool any_ready() const {
    return !ready_.empty() || !woken_.empty() || !behind_.empty() || (wake_again_ && !waiting_.empty());
  }

  // The path had no room for the QP, so the QP waits.
  void wait_for_path(QueuePair& qp) { waiting_.append(qp); }
  // Makes all QPs ready that wait for a path, in the order in which they began to wait, behind those that are
  // ready. If QPs that an earlier call has woken still wait for their turn, this happens after their turns.
  void wake_waiting();

  // Makes only this QP ready, if it waits for a path.
  void wake(QueuePair& qp) {
    if (!qp.waiting_link.linked()) return;
    qp.waiting_link.unlink();
    make_ready(qp);
  }

  // Wakes the QP at `when`, or at the time for which it is already armed if that is earlier. A QP that is
  // woken checks its own deadlines and arms itself again, so moving a deadline to a later time costs nothing.
  void arm(QueuePair& qp, Instant when);
  // Disarms and returns one QP whose time has come; null if there is none.
  QueuePair* take_due(Instant now);
  Instant next_deadline() const { return timers_.empty() ? Instant::never() : timers_.front().when; }

  // Removes the QP from all lists.
  void forget(QueuePair& qp);

 private:
  struct Timer {
    Instant when;
    QueuePair* qp;
  };

  void disarm(QueuePair& qp);
  // Put `timer` at `place` of the heap or, if the order requires it, closer to the root or closer to the
  // leaves.
  void settle_up(std::size_t place, Timer timer);
  void settle_down(std::size_t place, Timer timer);
  void set(std::size_t place, Timer timer);

  // The ready QPs. These three queues are served in this order.
  QpQueue<&QueuePair::ready_link> ready_;
  QpQueue<&QueuePair::waiting_link> woken_;
  QpQueue<&QueuePair::ready_link> behind_;  // made ready since woken_ was filled

  QpQueue<&QueuePair::waiting_link> waiting_;  // QPs that wait for a path
  bool wake_again_ = false;                    // wake_waiting() takes effect when woken_ is empty
  std::vector<Timer> timers_;                  // a binary heap; each QP knows its place
};

}  // namespace pvrdma::verbs
