// MappedDoorbells: the contexts of an engine whose doorbells lie in memory that the adapter looks at, and
// what follows from that: behind a doorbell that was found there may have been others.
//
// All work requests of a QP stand in its ring before its doorbell does, so a QP word found is a reason to
// look at the rings of all QPs of the context, one after the other, each with its own small share of a turn.
// For CQs see completion_watch.h.
//
// No allocation but in open(), and no cost that grows with the number of QPs. Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "verbs/completion_watch.h"
#include "verbs/counters.h"
#include "verbs/ids.h"
#include "verbs/mapped_context.h"

namespace pvrdma::verbs {

class MappedDoorbells {
 public:
  explicit MappedDoorbells(Counters& counters) : watch_(counters) {}  // borrowed

  // From now on, what is added to `context` counts as mapped. `contexts_max`: all there can be.
  void open(ContextHandle context, std::size_t contexts_max);
  // Nothing of it is left.
  void close(ContextHandle context);
  void clear() { contexts_.clear(); }
  // Null: its doorbells come one by one.
  MappedContext* find(ContextHandle context) const {
    return context.value < contexts_.size() ? contexts_[context.value].get() : nullptr;
  }

  // Objects of contexts that are not mapped are ignored.
  void add(QueuePair& qp);
  void forget(QueuePair& qp);
  void add(CompletionQueue& cq);
  static void forget(CompletionQueue& cq) { CompletionWatch::forget(cq); }

  // A word for the QP `rung` was found, and is executed by now.
  void on_qp_word(MappedContext& context, QpHandle rung);
  // The QP whose ring is to be looked at next; null: none, for now.
  QueuePair* take_look();

  // In the past while there is something to do at once.
  Instant next_deadline() const {
    if (!any()) return Instant::never();
    return due_.empty() ? watch_.next_deadline() : Instant{};
  }
  // False: no context ever was mapped, so that there is nothing to look at.
  bool any() const { return !contexts_.empty(); }

  CompletionWatch& watch() { return watch_; }

 private:
  std::vector<std::unique_ptr<MappedContext>> contexts_;      // by handle; empty while there was none
  LinkedQueue<MappedContext, &MappedContext::due_link> due_;  // with looks due, in turn
  CompletionWatch watch_;
};

}  // namespace pvrdma::verbs
