// CompletionWatch: fires CQs of mapped contexts whose ARM may have been overwritten.
//
// A guest arms a CQ by a store to its doorbell page. A later store may overwrite it before the adapter looks.
// Therefore each CQ word found makes all CQs of that context "maybe armed" until they fire, for whatever
// reason. If the guest leaves a CQE in such a CQ for longer than the CQ's patience, the CQ fires. This wakes
// a guest that sleeps; a guest that was merely slow gets an event that it did not ask for. A guest that
// repeatedly takes CQEs without events is a poller: each event that it did not ask for doubles the CQ's
// patience, up to kPatienceMax.
//
// A guest that takes some CQEs and goes to sleep before the others arrive looks the same as one that still
// polls. So when the consumer index has moved, the CQ waits once more; it never stops waiting. An empty ring
// needs no event, but the CQ stays maybe armed for the next CQE.
//
// Nothing here allocates, and no cost grows with the number of CQs. Thread: shard-owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "verbs/completion_queue.h"
#include "verbs/counters.h"
#include "verbs/mapped_context.h"
#include "verbs/queue_link.h"

namespace pvrdma::verbs {

class CompletionWatch {
 public:
  static constexpr Duration kPatienceMin = std::chrono::microseconds(20);
  static constexpr std::size_t kPatiences = 10;
  static constexpr Duration kPatienceMax = kPatienceMin * (1 << (kPatiences - 1));  // 10 ms
  // A guest counts as a poller if it took CQEs by itself at least this often since the last unasked event.
  static constexpr std::uint8_t kBatchesOfPoller = 8;
  static constexpr std::uint32_t kLooksPerTurn = 64;  // in run() and in on_time()

  explicit CompletionWatch(Counters& counters) : counters_(counters) {}  // borrowed

  // `cq` belongs to `context`, and the guest cannot have armed it yet. Both are borrowed until forget().
  void add(CompletionQueue& cq, MappedContext& context);
  static void forget(CompletionQueue& cq);

  // The adapter found a doorbell word for one of the context's CQs.
  void on_word(MappedContext& context);
  // The adapter saw a word that arms `cq`.
  static void on_armed(CompletionQueue& cq, CompletionQueue::Arm what);
  // The engine appended a CQE to `cq` without an event.
  void on_pushed(CompletionQueue& cq);
  // The engine raised an event for `cq`.
  static void on_fired(CompletionQueue& cq);

  // Returns true if there is more to do.
  bool run(Instant now);
  // Fires the CQs whose patience has ended.
  void on_time(Instant now);
  // A time in the past while run() has something to do.
  Instant next_deadline() const;

 private:
  using Queue = LinkedQueue<CompletionQueue, &CompletionQueue::watch_link>;

  void wait(CompletionQueue& cq, std::uint32_t consumer_index, Instant now);
  void look(CompletionQueue& cq, Instant now);

  Counters& counters_;
  Queue fresh_;                            // maybe armed and not empty; run() starts their patience
  std::array<Queue, kPatiences> waiting_;  // one queue per patience, so that each is in order of time
};

}  // namespace pvrdma::verbs
