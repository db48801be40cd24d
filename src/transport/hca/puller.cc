#include "transport/hca/puller.h"

#include <algorithm>
#include <utility>

#include "transport/hca/introduction.h"
#include "transport/hca/pipe.h"
#include "transport/hca/pull.h"

namespace pvrdma::transport::hca {
namespace {

bool is_same_connection(const verbs::Request& a, const verbs::Request& b) {
  return a.to == b.to && a.from == b.from;
}

// Seen from here.
Stripe stripe_of(const SegmentId& segment, const verbs::Request& request) {
  return hca::stripe_of(segment, request.to, request.from, request.from);
}

}  // namespace

// What an engine gets of a lent request.
class Puller::Fetched final : public verbs::Payload {
 public:
  Fetched(Puller& puller, Held& held, bool is_ahead = false)
      : puller_(puller), held_(held), is_ahead_(is_ahead) {}
  std::uint64_t bytes() const override { return held_.request.bytes; }
  bool copy_to(const guestmem::SpanList& /*target*/) override { return false; }
  verbs::Placed place(const guestmem::SpanList& target) override {
    if (!is_back()) return puller_.fetch(held_, target);
    touch(target);
    return verbs::Placed::kDone;
  }
  bool is_back() const override { return held_.progress == Progress::kBack; }
  bool is_ahead() const override { return is_ahead_; }

 private:
  Puller& puller_;
  Held& held_;
  const bool is_ahead_;
};

// What the worker's thread gets and gives back.
struct Puller::Job {
  std::uint32_t id;
  std::unique_ptr<BulkEnd> end;
};

Puller::~Puller() {
  stop_everything();
}

// --- Requests ---

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

// Whether the peer is to say again what it says of this stripe now.
bool Puller::is_deaf_to(const SegmentId& segment, const verbs::Request& request) const {
  if (deaf_count_ == 0) return false;
  const Stripe stripe = stripe_of(segment, request);
  return std::ranges::any_of(
      bulks_, [&](const auto& entry) { return entry.second.is_down && entry.second.stripe == stripe; });
}

// The oldest that waits, or is being fetched, behind the one of that order.
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
  if (held_.empty() || is_deaf_to(lent.segment, lent.request)) return Taken::kYes;  // by no QP that there was
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

// Hands over what waits of the connection, until one is to be fetched.
void Puller::go_on(SegmentId segment, const verbs::Request& like, Instant now) {
  const verbs::Request connection = like;  // what it is of may be gone meanwhile
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

// Has what waits behind one that is being fetched fetched as well, as far as the engine knows where it goes.
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

// Afterwards it is free, unless it is being fetched, or waits for room to be.
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
    case Pulled::kFailed:  // in pieces, until it stands again
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
  if (found == bulks_.end() || found->second.end == nullptr) return;  // it has been stopped
  Bulk& bulk = found->second;
  if (returned.count - bulk.returned > bulk.lent - bulk.returned) return fail(bulk);
  bulk.stands_there = true;
  while (bulk.returned != returned.count) {
    const Answer& answer = bulk.answers[bulk.returned++ % kLentAnswersMax];
    --answer_count_;
    shared_.inbound.on_returned(*bulk.engine, answer.qpn, answer.rkey);
  }
}

// The engine has to be told, but may be in the middle of something.
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
      bulk.end->arm();  // and look once more at what came before
      armed = true;
      continue;
    }
    taken += *count;
    // All of them first: what is handed over may stop the QP.
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

// --- QPs ---

Puller::Bulk* Puller::find(const Stripe& stripe) {
  const auto found = std::ranges::find_if(
      bulks_, [&](const auto& entry) { return entry.second.stripe == stripe && !entry.second.is_down; });
  return found == bulks_.end() ? nullptr : &found->second;
}

void Puller::on_offer(const BulkOffer& offer, Instant /*now*/) {
  try {
    const VmPair& said = offer.stripe.pair;
    const Stripe stripe{{.segment = said.segment, .own = said.peer, .peer = said.own}, offer.stripe.number};
    // A new one of the same takes the place of the old one.
    for (auto at = bulks_.begin(); at != bulks_.end();)
      at = at->second.stripe == stripe || at->first == offer.id ? forget(at) : std::next(at);
    verbs::Engine* const engine = shared_.inbound.find_pair(pipe_.peer(), stripe.pair);
    if (engine == nullptr || pipe_.reads() == 0 || bulks_.size() >= kBulksMax) return refuse(offer.id);
    const auto memory = shared_.services.memory_of(*engine);
    if (memory == nullptr) return refuse(offer.id);
    memory->refresh();
    if (!memory->is_ready() || memory->pinned_bytes() == 0) return refuse(offer.id);
    if (held_.empty()) held_.resize(kHeldMax);
    over_.reserve(kAnswersMax);
    auto job = std::make_shared<Job>();
    job->id = offer.id;
    bulks_[offer.id] = {.stripe = stripe, .engine = engine, .memory = memory, .end = nullptr};
    shared_.services.work(
        [job, domain = memory->domain(), reads = pipe_.reads(), pipe = pipe_.connection(),
         there = offer.end] {
          auto end = BulkEnd::make(domain, reads);
          if (end && (*end)->connect(pipe, there)) job->end = *std::move(end);
        },
        [job, to = std::weak_ptr(self_), &services = shared_.services] {
          if (const auto self = to.lock()) return (*self)->on_connected(*job);
          if (job->end != nullptr) services.bury(std::move(job->end));
        });
  } catch (const std::bad_alloc&) {
    bulks_.erase(offer.id);
    refuse(offer.id);
  }
}

void Puller::refuse(std::uint32_t id) {
  BulkRoom room;  // unheard: the peer's patience ends some time
  static_cast<void>(pipe_.send_frame(encode_bulk(pipe_.next_sequence(), BulkAnswer{.id = id}, room)));
}

void Puller::on_connected(Job& job) {
  const auto found = bulks_.find(job.id);
  const bool is_wanted = found != bulks_.end() && !found->second.is_down && job.end != nullptr;
  BulkRoom room;
  if (!is_wanted ||
      !pipe_.send_frame(encode_bulk(pipe_.next_sequence(), BulkAnswer{job.id, job.end->here()}, room))) {
    if (job.end != nullptr) shared_.services.bury(std::move(job.end));
    if (found != bulks_.end() && !found->second.is_down) {
      bulks_.erase(found);
      refuse(job.id);
    }
    return;
  }
  found->second.end = std::move(job.end);
  found->second.end->set_user(this);
  on_bulk_completions(*found->second.end);  // what came before went unheard
}

// Ends the QP and forgets all that waits of its stripe.
void Puller::drop(Bulk& bulk) {
  end_answers(bulk);
  if (bulk.end != nullptr) {
    ++shared_.bulk.stops;
    bulk.end->set_user(nullptr);
    if (!bulk.end->stop()) shared_.services.give_up_device();
    shared_.services.bury(std::move(bulk.end));
  }
  for (Held& held : held_) {
    if (held.progress == Progress::kFree || stripe_of(held.segment, held.request) != bulk.stripe) continue;
    held.progress = Progress::kFree;
    --held_count_;
  }
  if (std::exchange(lacked_room_, false)) pipe_.run_soon();
}

Puller::Bulks::iterator Puller::forget(Bulks::iterator bulk) {
  drop(bulk->second);
  if (bulk->second.is_down) --deaf_count_;
  return bulks_.erase(bulk);
}

// The peer is told, and says everything again.
void Puller::fail(Bulk& bulk) {
  drop(bulk);
  if (bulk.is_down) return;
  bulk.is_down = true;
  ++deaf_count_;
  bulk.tells_stop = true;
  has_news_ = shared_.attention = true;
}

void Puller::on_stopped(const BulkStopped& stopped) {
  const auto found = bulks_.find(stopped.id);
  if (found == bulks_.end()) return;
  forget(found);
}

void Puller::stop(SegmentId segment, const verbs::Connection& connection) {
  Bulk* const bulk = find(hca::stripe_of(segment, connection.local, connection.remote, connection.remote));
  if (bulk != nullptr) fail(*bulk);
  // Whoever stops it knows already.
  std::erase_if(over_,
                [&](const Over& over) { return over.segment == segment && over.own == connection.local; });
}

void Puller::stop_all(const verbs::Engine& engine) {
  for (auto& [id, bulk] : bulks_) {
    if (bulk.engine == &engine) fail(bulk);
  }
  std::erase_if(over_, [&engine](const Over& over) { return over.engine == &engine; });
}

void Puller::stop_everything() {
  for (auto& [id, bulk] : bulks_) drop(bulk);
  bulks_.clear();
  deaf_count_ = 0;
}

void Puller::turn(Instant /*now*/) {
  if (!std::exchange(has_news_, false)) return;
  give_back();
  for (auto& [id, bulk] : bulks_) {
    if (std::exchange(bulk.lacks_memory, false)) bulk.memory->refresh();
    if (!bulk.tells_stop) continue;
    BulkRoom room;
    bulk.tells_stop = !pipe_.send_frame(encode_bulk(pipe_.next_sequence(), BulkStopped{id}, room));
    has_news_ = has_news_ || bulk.tells_stop;
  }
}

}  // namespace pvrdma::transport::hca
