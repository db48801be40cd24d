#include "transport/hca/lender.h"

#include <algorithm>
#include <utility>

#include "transport/hca/pipe.h"
#include "transport/hca/pull.h"

namespace pvrdma::transport::hca {

// What the worker's thread gets and gives back.
struct Lender::Job {
  std::uint32_t id;
  std::unique_ptr<BulkEnd> end;
  bool done = false;
};

Lender::~Lender() {
  stop_everything();
}

Lender::Bulk* Lender::ready(const verbs::Engine& engine, const Stripe& stripe, Instant now) {
  const auto found = bulks_.find(stripe);
  if (found == bulks_.end()) {
    if (pipe_.reads() == 0 || wanted_count_ == wanted_.size()) return nullptr;
    wanted_[wanted_count_++] = stripe;
    shared_.attention = true;
    return nullptr;
  }
  Bulk& bulk = found->second;
  if (bulk.state == State::kDown && now >= bulk.until && !bulk.tells_stop) {
    bulk.state = State::kWanted;
    has_news_ = shared_.attention = true;
  }
  if (bulk.state != State::kReady || bulk.engine != &engine) return nullptr;
  bulk.used = now;
  return &bulk;
}

bool Lender::lend(const verbs::Engine& engine, const Stripe& stripe, const guestmem::SpanList& payload,
                  Runs& runs, Instant now) {
  Bulk* const bulk = ready(engine, stripe, now);
  if (bulk == nullptr) return false;
  const Exposed exposed = expose(*bulk->memory, payload, runs);
  if (exposed == Exposed::kUnregistered) bulk->lacks_memory = has_news_ = shared_.attention = true;
  return exposed == Exposed::kYes;
}

// --- Answers that are lent ---

// What the engine gets of one.
class Lender::Fetched final : public verbs::Payload {
 public:
  // `runs`: null when it is back.
  Fetched(Lender& lender, Bulk& bulk, std::uint32_t number, const verbs::Response& response, const Runs* runs)
      : lender_(lender), bulk_(bulk), runs_(runs), number_(number), bytes_(response.bytes) {}
  std::uint64_t bytes() const override { return bytes_; }
  bool copy_to(const guestmem::SpanList& /*target*/) override { return false; }
  verbs::Placed place(const guestmem::SpanList& target) override {
    if (!is_back()) return lender_.fetch(bulk_, number_, *runs_, target);
    touch(target);
    return verbs::Placed::kDone;
  }
  bool is_back() const override { return runs_ == nullptr; }

 private:
  Lender& lender_;
  Bulk& bulk_;
  const Runs* const runs_;
  const std::uint32_t number_;
  const std::uint32_t bytes_;
};

void Lender::take(const LentAnswer& lent, Instant now) {
  const verbs::Response& response = lent.response;
  const Stripe stripe = stripe_of(lent.segment, response.to, response.from, response.to);
  const auto found = bulks_.find(stripe);
  if (found == bulks_.end() || found->second.state != State::kReady) return;  // by no QP that there is
  Bulk& bulk = found->second;
  if (bulk.taken - bulk.returned == kLentAnswersMax) return fail(bulk, now);
  const std::uint32_t id = bulk.id;
  const std::uint32_t number = bulk.taken++;
  Fetch& fetch = bulk.fetches[number % kLentAnswersMax];
  fetch = {.response = response};
  Fetched payload(*this, bulk, number, response, &lent.runs);
  hand_over(lent.segment, response, payload, now);
  if (bulk.state == State::kReady && bulk.id == id && fetch.reads_left == 0) return_those(bulk);
}

void Lender::hand_over(SegmentId segment, const verbs::Response& response, verbs::Payload& payload,
                       Instant now) {
  shared_.count(shared_.inbound.on_response(pipe_.peer(), segment, response, payload, now));
}

verbs::Placed Lender::fetch(Bulk& bulk, std::uint32_t number, const Runs& runs,
                            const guestmem::SpanList& target) {
  if (bulk.state != State::kReady) return verbs::Placed::kLost;
  Fetch& fetch = bulk.fetches[number % kLentAnswersMax];
  if (pull(*bulk.end, *bulk.memory, runs, target, number, fetch.reads_left) != Pulled::kPosted) {
    fail(bulk, shared_.clock.now());  // in pieces, until it stands again
    return verbs::Placed::kLost;
  }
  ++shared_.bulk.fetched;
  shared_.bulk.fetched_bytes += fetch.response.bytes;
  return verbs::Placed::kLater;
}

void Lender::on_bulk_completions(BulkEnd& end) {
  for (auto& [stripe, bulk] : bulks_) {
    if (bulk.end.get() == &end) bulk.has_completions = true;
  }
  has_completions_ = true;
  pipe_.run_soon();
}

void Lender::run(Instant now) {
  if (!std::exchange(has_completions_, false)) return;
  for (auto& [stripe, bulk] : bulks_) {
    if (std::exchange(bulk.has_completions, false)) poll(stripe, bulk, now);
  }
}

void Lender::poll(const Stripe& stripe, Bulk& bulk, Instant now) {
  std::array<NicCompletion, 32> found;
  const std::uint32_t id = bulk.id;
  const auto is_still_it = [&] { return bulk.state == State::kReady && bulk.id == id; };
  bool armed = false;
  for (std::size_t polled = 0; is_still_it() && polled < kCompletionsPerTurn;) {
    const auto count = bulk.end->poll(found);
    if (!count) return fail(bulk, now);
    if (*count == 0) {
      if (armed) return;
      bulk.end->arm();  // and look once more at what came before
      armed = true;
      continue;
    }
    polled += *count;
    // Those of a QP end in order. All of them first: what is handed over may stop the QP.
    std::array<verbs::Response, kLentAnswersMax> ended;
    std::size_t ended_count = 0;
    for (std::size_t i = 0; i < *count; ++i) {
      if (!found[i].trouble.empty()) return fail(bulk, now);
      Fetch& fetch = bulk.fetches[found[i].id % kLentAnswersMax];
      if (--fetch.reads_left == 0) ended[ended_count++] = fetch.response;
    }
    if (ended_count != 0) return_those(bulk);
    for (std::size_t i = 0; i < ended_count && is_still_it(); ++i) {
      Fetched payload(*this, bulk, 0, ended[i], nullptr);
      hand_over(stripe.pair.segment, ended[i], payload, now);
    }
  }
  if (!is_still_it()) return;
  bulk.has_completions = has_completions_ = true;
  pipe_.run_soon();
}

// The peer hears of those that are read no more, before anything that their guest says then.
void Lender::return_those(Bulk& bulk) {
  const std::uint32_t before = bulk.returned;
  while (bulk.returned != bulk.taken && bulk.fetches[bulk.returned % kLentAnswersMax].reads_left == 0)
    ++bulk.returned;
  if (bulk.returned != before) tell_returned(bulk);
}

void Lender::tell_returned(Bulk& bulk) {
  BulkRoom room;
  const BulkReturned said{.id = bulk.id, .count = bulk.returned};
  bulk.tells_returned = !pipe_.send_frame(encode_bulk(pipe_.next_sequence(), said, room));
  has_news_ = has_news_ || bulk.tells_returned;  // the turn after that which finds room tries again
}

// --- QPs ---

Lender::Bulks::iterator Lender::find(std::uint32_t id) {
  return std::ranges::find_if(bulks_, [id](const auto& entry) { return entry.second.id == id; });
}

// Makes it where it can.
bool Lender::has_room(Instant now) {
  if (bulks_.size() < kBulksMax) return true;
  const auto oldest =
      std::ranges::min_element(bulks_, {}, [](const auto& entry) { return entry.second.used; });
  Bulk& bulk = oldest->second;
  if (now - bulk.used < kBulkIdle) return false;
  if (bulk.state != State::kDown) fail(bulk, now);
  if (bulk.tells_stop) return false;  // soon
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
  for (auto& [stripe, bulk] : bulks_) step(stripe, bulk, now);
  shared_.check_at(next_look_);
}

void Lender::step(const Stripe& stripe, Bulk& bulk, Instant now) {
  if (bulk.tells_stop && !tell_stop(stripe, bulk, now)) {
    has_news_ = true;  // there is no room; the turn after that which finds some tries again
    look_at(now + shared_.times.bulk_pause_first);
    return;
  }
  switch (bulk.state) {
    case State::kWanted: {
      // Whether that GID is still this engine's, and that host's the other.
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
      if (std::exchange(bulk.lacks_memory, false)) bulk.memory->refresh();
      if (bulk.tells_returned) tell_returned(bulk);
      return;
    case State::kDown:  // until somebody wants it
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
      [job, to = std::weak_ptr(self_), &services = shared_.services] {
        if (const auto self = to.lock()) return (*self)->on_made(*job);
        if (job->end != nullptr) services.bury(std::move(job->end));
      });
  bulk.state = State::kMaking;
  bulk.until = now + kBulkSetUpMax;
  look_at(bulk.until);
}

void Lender::on_made(Job& job) {
  const Instant now = shared_.clock.now();
  const auto found = find(job.id);
  if (found == bulks_.end() || found->second.state != State::kMaking) {
    if (job.end != nullptr) shared_.services.bury(std::move(job.end));
    return;
  }
  Bulk& bulk = found->second;
  if (job.end == nullptr) return fail(bulk, now);
  bulk.end = std::move(job.end);
  bulk.state = State::kMade;
  offer(found->first, bulk, now);
}

// As soon as there is room.
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
  shared_.services.work(
      [job, pipe = pipe_.connection(), there] { job->done = job->end->connect(pipe, there).has_value(); },
      [job, to = std::weak_ptr(self_), &services = shared_.services] {
        if (const auto self = to.lock()) return (*self)->on_connected(*job);
        services.bury(std::move(job->end));
      });
}

void Lender::on_connected(Job& job) {
  const auto found = find(job.id);
  if (found == bulks_.end() || found->second.state != State::kConnecting)
    return shared_.services.bury(std::move(job.end));
  Bulk& bulk = found->second;
  bulk.end = std::move(job.end);
  if (!job.done) return fail(bulk, shared_.clock.now());
  bulk.state = State::kReady;
  bulk.ready_since = shared_.clock.now();
  bulk.until = Instant::never();
  bulk.end->set_user(this);
  if (pipe_.lends_answers()) tell_returned(bulk);
}

// What it had is over.
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
  // Also when it has been said already: the peer takes nothing of the pair's until it hears of this.
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

// On the pipe it comes behind all that was lent, and before all that is sent again.
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

std::uint64_t Lender::standing() const {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(bulks_, [](const auto& entry) { return entry.second.state == State::kReady; }));
}

}  // namespace pvrdma::transport::hca
