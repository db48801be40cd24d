// CompletionWatch: fires CQs of mapped contexts whose ARM may have been overwritten.
//
// A guest arms a CQ by a store to its doorbell page. A later store may overwrite it before the adapter looks.
// Therefore each CQ word found makes all CQs of that context "maybe armed" until they fire, for whatever
// reason. An armed CQ must fire for a new CQE even if its consumer has taken the CQE by polling meanwhile,
// because some programs count events. So a CQ that is maybe armed and got a CQE fires as soon as its consumer
// has been silent for the CQ's patience: the consumer index has not moved, and no word has named the CQ. This
// wakes a consumer that sleeps. A consumer that polls is not silent. One that was merely slow gets an event
// that it did not ask for.
//
// Patience begins at kPatienceMin and doubles each time that the consumer is found awake, up to kPatienceMax.
// So a consumer that polls costs few looks, and the event of one that falls asleep is late by about the time
// for which it was awake. An event that nobody asked for ends this, unless the consumer polls. If the adapter
// sees no ARM for kUnaskedMax such events, it takes the CQ for one that is never armed, and gives it at most
// one event every kPatienceMax.
//
// An ARM that the adapter sees lay in its page for some time. If the page was looked at since the last CQE,
// the ARM is younger than that CQE. Otherwise it may be older, and then the CQ fires at once.
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
  // A consumer polls if it was found awake at least this often since the last unasked event.
  static constexpr std::uint8_t kLooksOfPoller = 8;
  static constexpr std::uint16_t kUnaskedMax = 1000;
  static constexpr std::uint32_t kLooksPerTurn = 64;  // in run() and in on_time()

  explicit CompletionWatch(Counters& counters) : counters_(counters) {}  // borrowed

  // `cq` belongs to `context`, and the guest cannot have armed it yet. Both are borrowed until forget().
  void add(CompletionQueue& cq, MappedContext& context);
  static void forget(CompletionQueue& cq);

  // The adapter is about to look at doorbell pages. Returns the number of this look.
  std::uint64_t begin_look() { return ++look_; }
  // The adapter found a doorbell word for one of the context's CQs: for `named`, unless that is null. The
  // word was not there yet at `look_before`, the last look at that page before this one.
  void on_word(MappedContext& context, CompletionQueue* named, std::uint64_t look_before);
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
  std::uint64_t look_ = 0;
  Queue fresh_;                            // maybe armed and not empty; run() starts their patience
  std::array<Queue, kPatiences> waiting_;  // one queue per patience, so that each is in order of time
};

}  // namespace pvrdma::verbs
