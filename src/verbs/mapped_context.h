// MappedContext: what an engine knows of a context whose doorbells lie in memory. There a doorbell overwrites
// the one before it if the adapter has not looked in between. docs/device.md section 5. Thread: shard-owned.
#pragma once

#include <cstdint>

#include "verbs/completion_queue.h"
#include "verbs/queue_link.h"
#include "verbs/queue_pair.h"

namespace pvrdma::verbs {

struct MappedContext {
  // The number of CQ words found. Each may have overwritten an ARM for any CQ of the context.
  std::uint64_t epoch = 0;
  // CQs that hold CQEs and cannot have a hidden ARM.
  LinkedQueue<CompletionQueue, &CompletionQueue::watch_link> unasked;

  // All QPs of the context, those to be looked at next in front.
  LinkedQueue<QueuePair, &QueuePair::context_link> qps;
  std::uint32_t qp_count = 0;
  // How many QPs are still to be looked at, because a QP word that was found may have overwritten theirs.
  std::uint32_t looks_due = 0;
  QueueLink<MappedContext> due_link{this};
};

}  // namespace pvrdma::verbs
