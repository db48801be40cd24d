// The QPs of a Puller: making them for an offer, stopping and forgetting them.
#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "transport/hca/pipe.h"
#include "transport/hca/puller.h"

namespace pvrdma::transport::hca {

// A job for the worker's thread and its result.
struct Puller::Job {
  std::uint32_t id;
  std::uint64_t number;  // the peer may offer an id again
  std::unique_ptr<BulkEnd> end;
};

Puller::~Puller() {
  stop_everything();
}

Puller::Bulk* Puller::find(const Stripe& stripe) {
  const auto found = std::ranges::find_if(
      bulks_, [&](const auto& entry) { return entry.second.stripe == stripe && !entry.second.is_down; });
  return found == bulks_.end() ? nullptr : &found->second;
}

void Puller::on_offer(const BulkOffer& offer, Instant /*now*/) {
  try {
    const VmPair& said = offer.stripe.pair;
    const Stripe stripe{{.segment = said.segment, .own = said.peer, .peer = said.own}, offer.stripe.number};
    // A new QP replaces the old one of the same stripe or id.
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
    job->number = next_job_++;
    bulks_[offer.id] = {
        .stripe = stripe, .engine = engine, .memory = memory, .end = nullptr, .job = job->number};
    shared_.services.work(
        [job, domain = memory->domain(), reads = pipe_.reads(), pipe = pipe_.connection(),
         there = offer.end] {
          auto end = BulkEnd::make(domain, reads);
          if (end && (*end)->connect(pipe, there)) job->end = *std::move(end);
        },
        [job, to = std::weak_ptr(self_)] {
          if (const auto self = to.lock()) (*self)->on_connected(*job);
        });
  } catch (const std::bad_alloc&) {
    bulks_.erase(offer.id);
    refuse(offer.id);
  }
}

void Puller::refuse(std::uint32_t id) {
  BulkRoom room;  // if it is not sent, the peer's offer times out
  static_cast<void>(pipe_.send_frame(encode_bulk(pipe_.next_sequence(), BulkAnswer{.id = id}, room)));
}

void Puller::on_connected(Job& job) {
  const auto found = bulks_.find(job.id);
  if (found == bulks_.end() || found->second.job != job.number || found->second.is_down) return;
  BulkRoom room;
  if (job.end == nullptr ||
      !pipe_.send_frame(encode_bulk(pipe_.next_sequence(), BulkAnswer{job.id, job.end->here()}, room))) {
    bulks_.erase(found);
    return refuse(job.id);
  }
  found->second.end = std::move(job.end);
  found->second.end->set_user(this);
  on_bulk_completions(*found->second.end);  // completions from before were not reported to this Puller
}

// Ends the QP and drops all waiting requests of its stripe.
void Puller::drop(Bulk& bulk) {
  end_answers(bulk);
  if (bulk.end != nullptr) {
    ++shared_.bulk.stops;
    bulk.end->set_user(nullptr);
    if (!bulk.end->stop()) shared_.services.give_up_device();
    shared_.services.bury(std::move(bulk.end));
  }
  bulk.memory.reset();
  bulk.lacks_memory = false;
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

// Ends the QP. The peer is told and sends everything again.
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
  // The engine that stops the connection knows that its loans are over.
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
  try {
    for (auto& [id, bulk] : bulks_) {
      if (bulk.lacks_memory) bulk.memory->refresh();
      bulk.lacks_memory = false;
      if (!bulk.tells_stop) continue;
      BulkRoom room;
      bulk.tells_stop = !pipe_.send_frame(encode_bulk(pipe_.next_sequence(), BulkStopped{id}, room));
      has_news_ = has_news_ || bulk.tells_stop;
    }
  } catch (const std::bad_alloc&) {
    has_news_ = true;
    throw;
  }
}

}  // namespace pvrdma::transport::hca
