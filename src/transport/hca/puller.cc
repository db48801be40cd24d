#include "transport/hca/puller.h"

#include <algorithm>
#include <utility>

#include "transport/hca/pipe.h"
#include "transport/hca/pull.h"

namespace pvrdma::transport::hca {
namespace {

bool is_same_connection(const verbs::Request& a, const verbs::Request& b) {
  return a.to == b.to && a.from == b.from;
}

}  // namespace

// The payload of a lent request, as the engine sees it.
class Puller::Fetched final : public verbs::Payload {
 public:
  Fetched(Puller& puller, Held& held, bool is_ahead = false)
      : puller_(puller), held_(held), is_ahead_(is_ahead) {}
  std::uint64_t bytes() const override { return held_.request.bytes; }
  bool copy_to(const guestmem::SpanList& /*target*/) override { return false; }
  verbs::Placed place(const guestmem::SpanList& target) override {
    if (!is_back()) return puller_.fetch(held_, target);
    hca::touch(target);
    return verbs::Placed::kDone;
  }
  bool is_back() const override { return held_.progress == Progress::kBack; }
  bool is_ahead() const override { return is_ahead_; }

 private:
  Puller& puller_;
  Held& held_;
  const bool is_ahead_;
};

Puller::Held* Puller::place() {
  const auto free = std::ranges::find(held_, Progress::kFree, &Held::progress);
  if (free == held_.end()) {
    lacked_room_ = true;
    return nullptr;
  }
  ++held_count_;
  free->progress = Progress::kWaits;
  free->order = next_order_++;
  return &*free;
}

// Whether frames of this stripe are ignored, because the peer will send them again.
bool Puller::is_deaf_to(const SegmentId& segment, const verbs::Request& request) const {
  if (deaf_count_ == 0) return false;
  const Stripe stripe = stripe_of(segment, request);
  return std::ranges::any_of(
      bulks_, [&](const auto& entry) { return entry.second.is_down && entry.second.stripe == stripe; });
}

// The oldest request of the connection, waiting or being fetched, after the one with that order.
Puller::Held* Puller::next_of(const SegmentId& segment, const verbs::Request& request, std::uint64_t order) {
  Held* oldest = nullptr;
  if (held_count_ == 0) return nullptr;
  for (Held& held : held_) {
    if (held.progress == Progress::kFree || held.order <= order || held.segment != segment ||
        !is_same_connection(held.request, request))
      continue;
    if (oldest == nullptr || held.order < oldest->order) oldest = &held;
  }
  return oldest;
}

Puller::Taken Puller::take(const Lent& lent, Instant now) {
  // The QP of the loan is gone.
  if (held_.empty() || is_deaf_to(lent.segment, lent.request)) return Taken::kYes;
  const bool is_first = next_of(lent.segment, lent.request) == nullptr;
  Held* const held = place();
  if (held == nullptr) return Taken::kNoRoom;
  held->is_lent = true;
  held->segment = lent.segment;
  held->request = lent.request;
  held->runs = lent.runs;
  if (is_first) {
    go_on(lent.segment, lent.request, now);
  } else {
    look_ahead(lent.segment, lent.request, now);
  }
  return Taken::kYes;
}

Puller::Taken Puller::take(SegmentId segment, const verbs::Request& request,
                           std::span<const std::byte> payload) {
  if (is_deaf_to(segment, request)) return Taken::kYes;
  if (next_of(segment, request) == nullptr) return Taken::kNo;
  Held* const held = place();
  if (held == nullptr) return Taken::kNoRoom;
  held->is_lent = false;
  held->segment = segment;
  held->request = request;
  std::ranges::copy(payload, held->bytes.begin());
  return Taken::kYes;
}

// Hands the connection's waiting requests to the engine until one has to be fetched.
void Puller::go_on(SegmentId segment, const verbs::Request& like, Instant now) {
  const verbs::Request connection = like;  // a copy: `like` may be destroyed meanwhile
  while (Held* const held = next_of(segment, connection)) {
    if (held->progress == Progress::kFetched) return look_ahead(segment, connection, now);
    if (!pipe_.may_answer()) {
      is_starved_ = true;
      return;
    }
    const std::uint64_t order = held->order;
    hand_over(*held, now);
    if (held->progress == Progress::kWaits && held->order == order) return;
  }
}

// Starts fetching the requests that wait behind a fetch, as far as the engine knows their destination.
void Puller::look_ahead(SegmentId segment, const verbs::Request& like, Instant now) {
  const verbs::Request connection = like;
  std::uint64_t order = 0;
  while (Held* const held = next_of(segment, connection, order)) {
    order = held->order;
    if (held->progress != Progress::kWaits) continue;
    if (!held->is_lent) return;
    Fetched payload(*this, *held, true);
    shared_.count(
        shared_.inbound.on_request(pipe_.peer(), PathKind::kHca, held->segment, held->request, payload, now));
    if (held->progress != Progress::kFetched || held->order != order) return;
  }
}

// Afterwards the entry is free, unless it is being fetched or waits until READs are available.
void Puller::hand_over(Held& held, Instant now) {
  const std::uint64_t order = held.order;
  const auto is_still_it = [&] { return held.progress != Progress::kFree && held.order == order; };
  bool waits = false;
  if (held.is_lent) {
    Fetched payload(*this, held);
    const bool was_back = payload.is_back();
    lacks_reads_ = false;
    shared_.count(
        shared_.inbound.on_request(pipe_.peer(), PathKind::kHca, held.segment, held.request, payload, now));
    waits = !was_back && lacks_reads_;
  } else {
    guestmem::SpanList spans;
    static_cast<void>(
        spans.append(held.bytes.data(), held.request.is_read_or_atomic() ? 0 : held.request.bytes));
    verbs::SpanPayload payload(spans);
    shared_.count(
        shared_.inbound.on_request(pipe_.peer(), PathKind::kHca, held.segment, held.request, payload, now));
  }
  if (!is_still_it() || held.progress == Progress::kFetched || waits) return;
  held.progress = Progress::kFree;
  --held_count_;
  if (std::exchange(lacked_room_, false)) pipe_.run_soon();
}

verbs::Placed Puller::fetch(Held& held, const guestmem::SpanList& target) {
  Bulk* const bulk = find(stripe_of(held.segment, held.request));
  if (bulk == nullptr || bulk->end == nullptr) return verbs::Placed::kLost;
  const auto id = static_cast<std::uint64_t>(&held - held_.data());
  switch (pull(*bulk->end, *bulk->memory, held.runs, target, id, held.reads_left)) {
    case Pulled::kPosted:
      break;
    case Pulled::kNoRoom:
      lacks_reads_ = bulk->lacks_reads = true;
      return verbs::Placed::kLost;
    case Pulled::kFailed:  // the payload goes in pieces until the QP is connected again
      fail(*bulk);
      return verbs::Placed::kLost;
  }
  held.progress = Progress::kFetched;
  ++shared_.bulk.fetched;
  shared_.bulk.fetched_bytes += held.request.bytes;
  return verbs::Placed::kLater;
}

// --- Answers that are lent ---

bool Puller::lend(SegmentId segment, const verbs::Response& response, std::uint32_t rkey,
                  const guestmem::SpanList& payload) {
  Bulk* const bulk = find(hca::stripe_of(segment, response.from, response.to, response.to));
  if (bulk == nullptr || !bulk->stands_there || bulk->lent - bulk->returned == kLentAnswersMax ||
      answer_count_ + over_.size() == kAnswersMax)
    return false;
  Runs runs;
  const Exposed exposed = expose(*bulk->memory, payload, runs);
  if (exposed == Exposed::kUnregistered) bulk->lacks_memory = has_news_ = shared_.attention = true;
  if (exposed != Exposed::kYes) return false;
  BulkRoom room;
  const auto frame = encode_lent(pipe_.next_sequence(), segment, response, runs, room);
  if (frame.empty() || !pipe_.send_frame(frame)) return false;
  bulk->answers[bulk->lent++ % kLentAnswersMax] = {.qpn = response.from.qpn, .rkey = rkey};
  ++answer_count_;
  return true;
}

void Puller::on_returned(const BulkReturned& returned) {
  const auto found = bulks_.find(returned.id);
  if (found == bulks_.end() || found->second.end == nullptr) return;  // the QP has been stopped
  Bulk& bulk = found->second;
  if (returned.count - bulk.returned > bulk.lent - bulk.returned) return fail(bulk);
  bulk.stands_there = true;
  while (bulk.returned != returned.count) {
    const Answer& answer = bulk.answers[bulk.returned++ % kLentAnswersMax];
    --answer_count_;
    shared_.inbound.on_returned(*bulk.engine, answer.qpn, answer.rkey);
  }
}

// Queues the returns: the engine may be in the middle of a call and must be told later.
void Puller::end_answers(Bulk& bulk) {
  for (; bulk.returned != bulk.lent; ++bulk.returned) {
    const Answer& answer = bulk.answers[bulk.returned % kLentAnswersMax];
    const VmPair& pair = bulk.stripe.pair;
    over_.push_back({bulk.engine, pair.segment, {pair.own, answer.qpn}, answer.rkey});
    --answer_count_;
    has_news_ = shared_.attention = true;
  }
}

void Puller::give_back() {
  for (const Over& over : over_) shared_.inbound.on_returned(*over.engine, over.own.qpn, over.rkey);
  over_.clear();
}

// --- READs ---

void Puller::on_bulk_completions(BulkEnd& end) {
  for (auto& [id, bulk] : bulks_) {
    if (bulk.end.get() == &end) bulk.has_completions = true;
  }
  has_completions_ = true;
  pipe_.run_soon();
}

void Puller::run(Instant now) {
  if (is_starved_ && pipe_.may_answer()) {
    is_starved_ = false;
    for (Held& held : held_) {
      if (held.progress == Progress::kBack || held.progress == Progress::kWaits)
        go_on(held.segment, held.request, now);
    }
  }
  if (!std::exchange(has_completions_, false)) return;
  for (auto& [id, bulk] : bulks_) {
    if (std::exchange(bulk.has_completions, false)) poll(bulk, now);
  }
}

void Puller::poll(Bulk& bulk, Instant now) {
  std::array<NicCompletion, 32> found;
  bool armed = false;
  for (std::size_t taken = 0; bulk.end != nullptr && taken < kCompletionsPerTurn;) {
    const auto count = bulk.end->poll(found);
    if (!count) return fail(bulk);
    if (*count == 0) {
      if (armed) return;
      bulk.end->arm();  // then polls again for completions from before
      armed = true;
      continue;
    }
    taken += *count;
    // Counts all of them first, because on_request() may stop the QP.
    std::array<std::uint64_t, 32> ended;
    std::size_t ended_count = 0;
    for (std::size_t i = 0; i < *count; ++i) {
      if (!found[i].trouble.empty()) return fail(bulk);
      Held& held = held_[found[i].id];
      if (--held.reads_left == 0) ended[ended_count++] = found[i].id;
    }
    for (std::size_t i = 0; i < ended_count; ++i) {
      Held& held = held_[ended[i]];
      if (held.progress != Progress::kFetched || held.reads_left != 0) continue;  // stopped meanwhile
      held.progress = Progress::kBack;
      go_on(held.segment, held.request, now);
    }
    if (bulk.end == nullptr || !std::exchange(bulk.lacks_reads, false)) continue;
    for (Held& held : held_) {
      if (held.progress == Progress::kWaits && held.is_lent && bulk.end != nullptr &&
          stripe_of(held.segment, held.request) == bulk.stripe)
        go_on(held.segment, held.request, now);
    }
  }
  if (bulk.end != nullptr) {
    bulk.has_completions = has_completions_ = true;
    pipe_.run_soon();
  }
}

}  // namespace pvrdma::transport::hca
