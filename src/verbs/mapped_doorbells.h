// MappedDoorbells: the contexts of an engine whose doorbells lie in memory that the adapter polls. A doorbell
// that it finds may have overwritten others.
//
// A work request is in the QP's ring before its doorbell is written. So after a QP word is found, the engine
// looks at the rings of all QPs of the context, one after the other, each with a small share of a turn. For
// CQs see completion_watch.h.
//
// Only open() allocates, and no cost grows with the number of QPs. Thread: shard-owned.
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

  // Treats objects that are added to `context` from now on as mapped. `contexts_max`: the number of possible
  // contexts.
  void open(ContextHandle context, std::size_t contexts_max);
  // Forgets the context, which has no objects left.
  void close(ContextHandle context);
  void clear() { contexts_.clear(); }
  // Returns null if the context's doorbells arrive one by one (not mapped).
  MappedContext* find(ContextHandle context) const {
    return context.value < contexts_.size() ? contexts_[context.value].get() : nullptr;
  }

  // These ignore objects of contexts that are not mapped.
  void add(QueuePair& qp);
  void forget(QueuePair& qp);
  void add(CompletionQueue& cq);
  static void forget(CompletionQueue& cq) { CompletionWatch::forget(cq); }

  // A word for the QP `rung` was found and has been executed.
  void on_qp_word(MappedContext& context, QpHandle rung);
  // Returns the QP whose ring is to be looked at next, or null if there is none now.
  QueuePair* take_look();

  // A time in the past while there is something to do at once.
  Instant next_deadline() const {
    if (!any()) return Instant::never();
    return due_.empty() ? watch_.next_deadline() : Instant{};
  }
  // Returns false if no context was ever mapped, so that there is nothing to look at.
  bool any() const { return !contexts_.empty(); }

  CompletionWatch& watch() { return watch_; }

 private:
  std::vector<std::unique_ptr<MappedContext>> contexts_;  // by handle; empty if no context was ever mapped
  LinkedQueue<MappedContext, &MappedContext::due_link> due_;  // contexts with looks due, served in turn
  CompletionWatch watch_;
};

}  // namespace pvrdma::verbs
