// The QPs of a Lender: making, connecting, ending and remaking them.
#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "transport/hca/lender.h"
#include "transport/hca/pipe.h"

namespace pvrdma::transport::hca {

// A job for the worker's thread and its result.
struct Lender::Job {
  std::uint32_t id;
  std::unique_ptr<BulkEnd> end;
  bool done = false;
};

Lender::~Lender() {
  stop_everything();
}

Lender::Bulks::iterator Lender::find(std::uint32_t id) {
  return std::ranges::find_if(bulks_, [id](const auto& entry) { return entry.second.id == id; });
}

// Removes the least recently used QP if there are too many and that one is idle.
bool Lender::has_room(Instant now) {
  if (bulks_.size() < kBulksMax) return true;
  const auto oldest =
      std::ranges::min_element(bulks_, {}, [](const auto& entry) { return entry.second.used; });
  Bulk& bulk = oldest->second;
  if (now - bulk.used < kBulkIdle) return false;
  if (bulk.state != State::kDown) fail(bulk, now);
  if (bulk.tells_stop) return false;  // room comes once the peer has been told
  bulks_.erase(oldest);
  return true;
}

void Lender::turn(Instant now) {
  while (wanted_count_ != 0) {
    const Stripe& stripe = wanted_[wanted_count_ - 1];
    if (!bulks_.contains(stripe) && has_room(now)) {
      Bulk& bulk = bulks_[stripe];
      bulk.used = now;
      bulk.pause = shared_.times.bulk_pause_first;
    }
    --wanted_count_;
    has_news_ = true;
  }
  if (!has_news_ && now < next_look_) return;
  has_news_ = false;
  next_look_ = Instant::never();
  try {
    for (auto& [stripe, bulk] : bulks_) step(stripe, bulk, now);
  } catch (const std::bad_alloc&) {
    has_news_ = true;
    throw;
  }
  shared_.check_at(next_look_);
}

void Lender::step(const Stripe& stripe, Bulk& bulk, Instant now) {
  if (bulk.tells_stop && !tell_stop(stripe, bulk, now)) {
    has_news_ = true;  // no slot is free; retried in the turn after one is
    look_at(now + shared_.times.bulk_pause_first);
    return;
  }
  switch (bulk.state) {
    case State::kWanted: {
      // Checks that the engine still has that GID, and that the peer's host still has the other.
      bulk.engine = shared_.inbound.find_pair(pipe_.peer(), stripe.pair);
      const auto memory = bulk.engine == nullptr ? nullptr : shared_.services.memory_of(*bulk.engine);
      if (memory == nullptr) return fail(bulk, now);
      memory->refresh();
      if (memory->is_ready()) return memory->pinned_bytes() != 0 ? make(bulk, memory, now) : fail(bulk, now);
      look_at(now + shared_.times.bulk_pause_first);
      return;
    }
    case State::kMade:
      if (now >= bulk.until) return fail(bulk, now);
      return offer(stripe, bulk, now);
    case State::kMaking:
    case State::kOffered:
    case State::kConnecting:
      if (now >= bulk.until) return fail(bulk, now);
      look_at(bulk.until);
      return;
    case State::kReady:
      if (bulk.lacks_memory) bulk.memory->refresh();
      bulk.lacks_memory = false;
      if (bulk.tells_returned) tell_returned(bulk);
      return;
    case State::kDown:  // until a caller wants the QP
      return;
  }
}

void Lender::make(Bulk& bulk, const std::shared_ptr<GuestMemory>& memory, Instant now) {
  auto job = std::make_shared<Job>();
  job->id = bulk.id = next_id_++;
  bulk.memory = memory;
  shared_.services.work(
      [job, domain = memory->domain(), reads = pipe_.reads()] {
        if (auto end = BulkEnd::make(domain, reads)) job->end = *std::move(end);
      },
      [job, to = std::weak_ptr(self_)] {
        if (const auto self = to.lock()) (*self)->on_made(*job);
      });
  bulk.state = State::kMaking;
  bulk.until = now + kBulkSetUpMax;
  look_at(bulk.until);
}

void Lender::on_made(Job& job) {
  const Instant now = shared_.clock.now();
  const auto found = find(job.id);
  if (found == bulks_.end() || found->second.state != State::kMaking) return;
  Bulk& bulk = found->second;
  if (job.end == nullptr) return fail(bulk, now);
  bulk.end = std::move(job.end);
  bulk.state = State::kMade;
  offer(found->first, bulk, now);
}

// Sends the offer, or tries again when a slot is free.
void Lender::offer(const Stripe& stripe, Bulk& bulk, Instant now) {
  BulkRoom room;
  const BulkOffer said{.id = bulk.id, .stripe = stripe, .end = bulk.end->here()};
  if (pipe_.send_frame(encode_bulk(pipe_.next_sequence(), said, room))) {
    bulk.state = State::kOffered;
    look_at(bulk.until);
    return;
  }
  has_news_ = true;
  look_at(now + shared_.times.bulk_pause_first);
}

void Lender::on_answer(const BulkAnswer& answer, Instant now) {
  const auto found = find(answer.id);
  if (found == bulks_.end() || found->second.state != State::kOffered) return;
  if (answer.end.qpn == 0) return fail(found->second, now);
  try {
    connect(found->second, answer.end);
  } catch (const std::bad_alloc&) {
    fail(found->second, now);
  }
}

void Lender::connect(Bulk& bulk, const BulkEndpoint& there) {
  auto job = std::make_shared<Job>();
  job->id = bulk.id;
  job->end = std::move(bulk.end);
  bulk.state = State::kConnecting;
  try {
    shared_.services.work(
        [job, pipe = pipe_.connection(), there] { job->done = job->end->connect(pipe, there).has_value(); },
        [job, to = std::weak_ptr(self_)] {
          if (const auto self = to.lock()) (*self)->on_connected(*job);
        });
  } catch (const std::bad_alloc&) {
    bulk.end = std::move(job->end);  // its destructor may sleep
    throw;
  }
}

void Lender::on_connected(Job& job) {
  const auto found = find(job.id);
  if (found == bulks_.end() || found->second.state != State::kConnecting) return;
  Bulk& bulk = found->second;
  bulk.end = std::move(job.end);
  if (!job.done) return fail(bulk, shared_.clock.now());
  bulk.state = State::kReady;
  bulk.ready_since = shared_.clock.now();
  bulk.until = Instant::never();
  bulk.end->set_user(this);
  if (pipe_.lends_answers()) tell_returned(bulk);
}

// Ends the QP and everything that used it.
void Lender::end(Bulk& bulk) {
  bulk.taken = bulk.returned = 0;
  bulk.tells_returned = false;
  bulk.memory.reset();
  if (bulk.end == nullptr) return;
  ++shared_.bulk.stops;
  bulk.end->set_user(nullptr);
  if (!bulk.end->stop()) shared_.services.give_up_device();
  shared_.services.bury(std::move(bulk.end));
}

void Lender::fail(Bulk& bulk, Instant now) {
  const bool had_loans = bulk.state == State::kReady;
  const bool was_offered = had_loans || bulk.state == State::kOffered || bulk.state == State::kConnecting;
  end(bulk);
  bulk.sends_again = bulk.sends_again || had_loans;
  if (was_offered) {
    bulk.tells_stop = true;
    bulk.stopped_id = bulk.id;
    has_news_ = shared_.attention = true;
  }
  bulk.state = State::kDown;
  const HcaTimes& times = shared_.times;
  if (had_loans && now - bulk.ready_since >= times.bulk_pause_max) bulk.pause = times.bulk_pause_first;
  bulk.until = now + bulk.pause;
  bulk.pause = std::min(bulk.pause * 2, times.bulk_pause_max);
}

void Lender::on_stopped(const BulkStopped& stopped) {
  const auto found = find(stopped.id);
  if (found == bulks_.end()) return;
  Bulk& bulk = found->second;
  if (bulk.state != State::kDown) fail(bulk, shared_.clock.now());
  // Sent even if it was sent before: the peer takes nothing of the stripe until it receives this.
  bulk.tells_stop = bulk.sends_again = true;
  bulk.stopped_id = stopped.id;
  has_news_ = shared_.attention = true;
}

void Lender::stop(SegmentId segment, const verbs::Connection& connection) {
  const auto found = bulks_.find(stripe_of(segment, connection.local, connection.remote, connection.local));
  if (found == bulks_.end() || found->second.state == State::kDown || found->second.state == State::kWanted)
    return;
  fail(found->second, shared_.clock.now());
}

void Lender::stop_all(const verbs::Engine& engine) {
  for (auto& [stripe, bulk] : bulks_) {
    if (bulk.engine == &engine && bulk.state != State::kDown) fail(bulk, shared_.clock.now());
  }
}

void Lender::stop_everything() {
  for (auto& [stripe, bulk] : bulks_) end(bulk);
  bulks_.clear();
  wanted_count_ = 0;
}

// The frame follows all loans on the pipe and precedes everything that is sent again.
bool Lender::tell_stop(const Stripe& stripe, Bulk& bulk, Instant now) {
  BulkRoom room;
  if (!pipe_.send_frame(encode_bulk(pipe_.next_sequence(), BulkStopped{bulk.stopped_id}, room))) return false;
  bulk.tells_stop = false;
  if (std::exchange(bulk.sends_again, false)) {
    const auto is_of_it = [&](verbs::Qpn own) { return own.value % kStripes == stripe.number; };
    shared_.inbound.on_pair_restored(pipe_.peer(), stripe.pair, is_of_it, now);
  }
  return true;
}

}  // namespace pvrdma::transport::hca
