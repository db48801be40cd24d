// CompletionWatch: the CQs of mapped contexts that may owe their guest an event.
//
// A guest arms a CQ by a store to its doorbell page, which a later store may hide before the adapter looks.
// So each CQ word found makes all CQs of that context "maybe armed", until they fire for whatever reason. A
// CQ that is maybe armed and holds a CQE which its guest does not take for a time (its patience) fires: a
// sleeper is woken, and who only was slow gets an event that it did not ask for. A guest that is seen to take
// CQEs without events is one that polls: its patience doubles with each such event, up to kPatienceMax.
//
// A guest that takes some CQEs and goes to sleep before the others came looks like one that goes on: a
// consumer index that has moved means to wait once more, never to give up. An empty ring needs no event, but
// stays maybe armed for the next CQE.
//
// No allocation, and no cost that grows with the number of CQs. Thread: shard-owned.
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
  // So often must the guest have taken CQEs by itself since the last event that it did not ask for.
  static constexpr std::uint8_t kBatchesOfPoller = 8;
  static constexpr std::uint32_t kLooksPerTurn = 64;  // in run() and in on_time()

  explicit CompletionWatch(Counters& counters) : counters_(counters) {}  // borrowed

  // `cq` is of `context`, and nobody can have armed it yet. Both are borrowed until forget().
  void add(CompletionQueue& cq, MappedContext& context);
  static void forget(CompletionQueue& cq);

  // A word for one of the context's CQs was found.
  void on_word(MappedContext& context);
  // `cq` was armed by a word that was seen.
  static void on_armed(CompletionQueue& cq, CompletionQueue::Arm what);
  // A CQE was put into `cq`, of which the guest was not told.
  void on_pushed(CompletionQueue& cq);
  // The guest was told to look at `cq`.
  static void on_fired(CompletionQueue& cq);

  // True: there is more to do.
  bool run(Instant now);
  // Fires what is due.
  void on_time(Instant now);
  // In the past while run() has something to do.
  Instant next_deadline() const;

 private:
  using Queue = LinkedQueue<CompletionQueue, &CompletionQueue::watch_link>;

  void wait(CompletionQueue& cq, std::uint32_t consumer_index, Instant now);
  void look(CompletionQueue& cq, Instant now);

  Counters& counters_;
  Queue fresh_;                            // maybe armed, and a CQE is there: to be given a time
  std::array<Queue, kPatiences> waiting_;  // by patience, so each in order of time
};

}  // namespace pvrdma::verbs
