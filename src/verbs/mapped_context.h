// MappedContext: what an engine knows of a context whose doorbells lie in memory, where a doorbell hides the
// one before it if nobody has looked meanwhile. docs/device.md section 5. Thread: shard-owned.
#pragma once

#include <cstdint>

#include "verbs/completion_queue.h"
#include "verbs/queue_link.h"
#include "verbs/queue_pair.h"

namespace pvrdma::verbs {

struct MappedContext {
  // CQ words found. Each may have hidden an ARM for any CQ of the context.
  std::uint64_t epoch = 0;
  // CQs that hold CQEs and whose ARMs, if there were any, are all known.
  LinkedQueue<CompletionQueue, &CompletionQueue::watch_link> unasked;

  // All QPs; those to be looked at next are in front.
  LinkedQueue<QueuePair, &QueuePair::context_link> qps;
  std::uint32_t qp_count = 0;
  // Looks that a QP word found is owed, as it may have hidden another QP's.
  std::uint32_t looks_due = 0;
  QueueLink<MappedContext> due_link{this};
};

}  // namespace pvrdma::verbs
