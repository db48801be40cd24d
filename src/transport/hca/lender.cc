#include "transport/hca/lender.h"

#include <algorithm>
#include <utility>

#include "transport/hca/pipe.h"
#include "transport/hca/pull.h"

namespace pvrdma::transport::hca {

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

// The payload of a lent answer, as the engine sees it.
class Lender::Fetched final : public verbs::Payload {
 public:
  // `runs` is null once the payload has been fetched.
  Fetched(Lender& lender, Bulk& bulk, std::uint32_t number, const verbs::Response& response, const Runs* runs)
      : lender_(lender), bulk_(bulk), runs_(runs), number_(number), bytes_(response.bytes) {}
  std::uint64_t bytes() const override { return bytes_; }
  bool copy_to(const guestmem::SpanList& /*target*/) override { return false; }
  verbs::Placed place(const guestmem::SpanList& target) override {
    if (!is_back()) return lender_.fetch(bulk_, number_, *runs_, target);
    hca::touch(target);
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
  if (found == bulks_.end() || found->second.state != State::kReady) return;  // the QP of the loan is gone
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
    fail(bulk, shared_.clock.now());  // the payload goes in pieces until the QP is connected again
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
      bulk.end->arm();  // then polls again for completions from before
      armed = true;
      continue;
    }
    polled += *count;
    // The READs of a QP complete in order. Counts all of them first, because on_response() may stop the QP.
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

// Tells the peer which lent answers are no longer read, before the guest can send anything that follows from
// them.
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
  has_news_ = has_news_ || bulk.tells_returned;  // retried in the turn after room becomes available
}

}  // namespace pvrdma::transport::hca
