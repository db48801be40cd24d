#include "verbs/completion_watch.h"

#include <algorithm>

namespace pvrdma::verbs {
namespace {

bool maybe_armed(const CompletionQueue& cq) {
  return cq.watched.cleared != cq.watched.context->epoch;
}

}  // namespace

void CompletionWatch::add(CompletionQueue& cq, MappedContext& context) {
  cq.watched.by = this;
  cq.watched.context = &context;
  cq.watched.cleared = context.epoch;
}

void CompletionWatch::forget(CompletionQueue& cq) {
  cq.watched.by = nullptr;
  cq.watch_link.unlink();
}

void CompletionWatch::on_word(MappedContext& context, CompletionQueue* named, std::uint64_t look_before) {
  ++context.epoch;
  if (named != nullptr) {
    named->watched.is_named = true;
    named->watched.maybe_armed_at_push = named->watched.look_at_push >= look_before;
  }
  fresh_.append_all(context.unasked);
}

void CompletionWatch::on_armed(CompletionQueue& cq, CompletionQueue::Arm what) {
  cq.watched.patience = 0;
  cq.watched.unasked = 0;
  if (what != CompletionQueue::Arm::kAny) return;
  // The next CQE fires the CQ, which satisfies every ARM that was hidden before.
  cq.watched.cleared = cq.watched.context->epoch;
  cq.watch_link.unlink();
}

void CompletionWatch::on_pushed(CompletionQueue& cq) {
  cq.watched.look_at_push = look_;
  if (cq.watch_link.linked()) return;
  (maybe_armed(cq) ? fresh_ : cq.watched.context->unasked).append(cq);
}

void CompletionWatch::on_fired(CompletionQueue& cq) {
  cq.watched.cleared = cq.watched.context->epoch;
  cq.watch_link.unlink();
}

bool CompletionWatch::run(Instant now) {
  for (std::uint32_t looks = 0; looks < kLooksPerTurn; ++looks) {
    CompletionQueue* cq = fresh_.take();
    if (cq == nullptr) return false;
    wait(*cq, cq->unread().peer_index, now);
  }
  return !fresh_.empty();
}

void CompletionWatch::on_time(Instant now) {
  std::uint32_t looks = 0;
  for (Queue& queue : waiting_) {
    for (; looks < kLooksPerTurn; ++looks) {
      CompletionQueue* cq = queue.front();
      if (cq == nullptr || cq->watched.due > now) break;
      cq->watch_link.unlink();
      look(*cq, now);
    }
  }
}

void CompletionWatch::wait(CompletionQueue& cq, std::uint32_t consumer_index, Instant now) {
  cq.watched.consumer_index = consumer_index;
  cq.watched.is_named = false;
  cq.watched.due = now + kPatienceMin * (1 << cq.watched.patience);
  waiting_[cq.watched.patience].append(cq);
}

void CompletionWatch::look(CompletionQueue& cq, Instant now) {
  CompletionQueue::Watched& watched = cq.watched;
  const std::uint32_t consumer_index = cq.unread().peer_index;
  if (watched.is_named || consumer_index != watched.consumer_index) {
    watched.awake_looks = std::min<std::uint8_t>(watched.awake_looks + 1, kLooksOfPoller);
    watched.patience = std::min<std::uint8_t>(watched.patience + 1, kPatiences - 1);
    wait(cq, consumer_index, now);
    return;
  }
  watched.unasked = std::min<std::uint16_t>(watched.unasked + 1, kUnaskedMax);
  if (watched.unasked == kUnaskedMax) {
    watched.patience = kPatiences - 1;
  } else if (watched.awake_looks < kLooksOfPoller) {
    watched.patience = 0;
  }
  watched.awake_looks = 0;
  ++counters_.events_maybe_armed;
  cq.fire();
}

Instant CompletionWatch::next_deadline() const {
  if (!fresh_.empty()) return Instant{};
  Instant next = Instant::never();
  for (const Queue& queue : waiting_) {
    if (!queue.empty()) next = std::min(next, queue.front()->watched.due);
  }
  return next;
}

}  // namespace pvrdma::verbs
