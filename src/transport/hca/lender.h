// Lender: the dialler's side of a pipe's bulk QPs: lends what long requests carry, so that the peer's host
// reads it from the guest's memory itself, and fetches what the peer lends for an answer to a read. There is
// one QP for each stripe of two VMs' connections; it is made when they first have something long to say, or
// to ask for, and until it stands, as after each failure, their payload goes in pieces.
//
// A loan of a request has no state here: the engine knows which work requests are lent (verbs/loans.h), and
// stop() ends all of two VMs' by ending their QP. Afterwards whatever they had not got an answer to is sent
// again.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "transport/hca/bulk_end.h"
#include "transport/hca/guest_memory.h"
#include "transport/hca/hca_shared.h"
#include "verbs/payload.h"

namespace pvrdma::transport::hca {

class Pipe;

class Lender final : private BulkEnd::User {
 public:
  // Both borrowed; they outlive this.
  Lender(Pipe& pipe, HcaShared& shared) : pipe_(pipe), shared_(shared) {}
  ~Lender() override;
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;

  // Something that is worth to be lent is about to be asked for.
  void expect(const verbs::Engine& engine, const Stripe& stripe, Instant now) {
    static_cast<void>(ready(engine, stripe, now));
  }
  // Whether the payload of such a request may be lent now: its runs are in `runs` then.
  bool lend(const verbs::Engine& engine, const Stripe& stripe, const guestmem::SpanList& payload, Runs& runs,
            Instant now);

  // The peer lends an answer.
  void take(const LentAnswer& lent, Instant now);

  void on_answer(const BulkAnswer& answer, Instant now);
  void on_stopped(const BulkStopped& stopped);

  // Nothing that the connection has lent is read any more when it returns, and nothing written that it was
  // lent; nothing of the engine's; of anybody's.
  void stop(SegmentId segment, const verbs::Connection& connection);
  void stop_all(const verbs::Engine& engine);
  void stop_everything();

  // Looks at READs that have ended. On an empty stack.
  void run(Instant now);
  // On an empty stack. May throw bad_alloc, and is called again then.
  void turn(Instant now);
  Instant next_deadline() const { return next_look_; }

 private:
  enum class State : std::uint8_t { kWanted, kMaking, kMade, kOffered, kConnecting, kReady, kDown };
  // An answer that the peer has lent.
  struct Fetch {
    verbs::Response response;
    std::uint32_t reads_left = 0;
  };
  class Fetched;  // Payload of a Fetch
  struct Bulk {
    std::uint32_t id = 0;  // of this attempt
    const verbs::Engine* engine = nullptr;
    std::shared_ptr<GuestMemory> memory;
    State state = State::kWanted;
    std::unique_ptr<BulkEnd> end;
    Instant until = Instant::never();  // of what is under way; kDown: of the pause
    Duration pause{};
    Instant ready_since{};
    Instant used{};
    bool lacks_memory = false;  // that is registered
    bool tells_stop = false;    // the peer is to hear of it
    bool sends_again = false;   // and then the engine is to send again
    std::uint32_t stopped_id = 0;

    // Answers that the peer has lent, numbers that count up; one's place is its number modulo the places.
    std::array<Fetch, kLentAnswersMax> fetches;
    std::uint32_t taken = 0;
    std::uint32_t returned = 0;  // those before it are read no more
    bool tells_returned = false;
    bool has_completions = false;
  };
  using Bulks = std::map<Stripe, Bulk>;
  struct Job;

  Bulks::iterator find(std::uint32_t id);
  // Null: none stands for the stripe now; if one can, it will.
  Bulk* ready(const verbs::Engine& engine, const Stripe& stripe, Instant now);
  bool has_room(Instant now);
  void step(const Stripe& stripe, Bulk& bulk, Instant now);
  void make(Bulk& bulk, const std::shared_ptr<GuestMemory>& memory, Instant now);
  verbs::Placed fetch(Bulk& bulk, std::uint32_t number, const Runs& runs, const guestmem::SpanList& target);
  void poll(const Stripe& stripe, Bulk& bulk, Instant now);
  void hand_over(SegmentId segment, const verbs::Response& response, verbs::Payload& payload, Instant now);
  void return_those(Bulk& bulk);
  void tell_returned(Bulk& bulk);
  void on_bulk_completions(BulkEnd& end) override;
  void on_made(Job& job);
  void offer(const Stripe& stripe, Bulk& bulk, Instant now);
  void connect(Bulk& bulk, const BulkEndpoint& there);
  void on_connected(Job& job);
  void end(Bulk& bulk);
  void fail(Bulk& bulk, Instant now);
  bool tell_stop(const Stripe& stripe, Bulk& bulk, Instant now);
  void look_at(Instant when) { next_look_ = std::min(next_look_, when); }

  Pipe& pipe_;
  HcaShared& shared_;
  Bulks bulks_;
  std::array<Stripe, 8> wanted_;  // to be made in the next turn
  std::size_t wanted_count_ = 0;
  std::uint32_t next_id_ = 1;
  bool has_news_ = false;
  bool has_completions_ = false;
  Instant next_look_ = Instant::never();
  // Jobs under way ask whether it is still there.
  std::shared_ptr<Lender*> self_ = std::make_shared<Lender*>(this);
};

}  // namespace pvrdma::transport::hca
