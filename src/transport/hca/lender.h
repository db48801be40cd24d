// Lender: the dialler's side of a pipe's bulk QPs. It lends the payload of long requests: the peer's host
// reads it directly from the guest's memory. It also fetches the payload that the peer lends for answers to
// reads. There is one QP for each stripe of two VMs' connections. It is made when those VMs first have long
// payload to send or to read. Until it is connected, and after each failure, their payload goes in pieces.
//
// The Lender keeps no state for a lent request: the engine knows which work requests are lent
// (verbs/loans.h). stop() ends all loans of a stripe by ending its QP. The engine then sends again every
// request that was not answered.
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

  // A request is about to be sent whose answer is worth lending: makes the QP if there is none.
  void expect(const verbs::Engine& engine, const Stripe& stripe, Instant now) {
    static_cast<void>(ready(engine, stripe, now));
  }
  // Whether the payload of a long request may be lent now. If so, its runs are in `runs`.
  bool lend(const verbs::Engine& engine, const Stripe& stripe, const guestmem::SpanList& payload, Runs& runs,
            Instant now);

  // The peer lends an answer.
  void take(const LentAnswer& lent, Instant now);

  void on_answer(const BulkAnswer& answer, Instant now);
  void on_stopped(const BulkStopped& stopped);

  // After these return, the device reads nothing that was lent, and writes nothing that is being fetched: for
  // the connection, for the engine, or for all engines.
  void stop(SegmentId segment, const verbs::Connection& connection);
  void stop_all(const verbs::Engine& engine);
  void stop_everything();

  // Handles READs that have completed. On an empty stack.
  void run(Instant now);
  // On an empty stack. May throw bad_alloc; the caller then calls it again.
  void turn(Instant now);
  Instant next_deadline() const { return next_look_; }

 private:
  enum class State : std::uint8_t { kWanted, kMaking, kMade, kOffered, kConnecting, kReady, kDown };
  // A lent answer that is being fetched.
  struct Fetch {
    verbs::Response response;
    std::uint32_t reads_left = 0;
  };
  class Fetched;  // the Payload of a Fetch
  struct Bulk {
    std::uint32_t id = 0;  // of this attempt to make the QP
    const verbs::Engine* engine = nullptr;
    std::shared_ptr<GuestMemory> memory;
    State state = State::kWanted;
    std::unique_ptr<BulkEnd> end;
    Instant until = Instant::never();  // the end of the current step; in kDown, of the pause
    Duration pause{};
    Instant ready_since{};
    Instant used{};
    bool lacks_memory = false;  // some payload was not registered
    bool tells_stop = false;    // the peer must be told of the stop
    bool sends_again = false;   // after which the engine must send again
    std::uint32_t stopped_id = 0;

    // Answers that the peer has lent. Their numbers count up; an entry's index is its number modulo the
    // array's size.
    std::array<Fetch, kLentAnswersMax> fetches;
    std::uint32_t taken = 0;
    std::uint32_t returned = 0;  // all before this number are no longer read
    bool tells_returned = false;
    bool has_completions = false;
  };
  using Bulks = std::map<Stripe, Bulk>;
  struct Job;

  Bulks::iterator find(std::uint32_t id);
  // Null: the stripe has no connected QP now. If it can have one, it will be made.
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
  std::array<Stripe, 8> wanted_;  // QPs to make in the next turn
  std::size_t wanted_count_ = 0;
  std::uint32_t next_id_ = 1;
  bool has_news_ = false;
  bool has_completions_ = false;
  Instant next_look_ = Instant::never();
  // Jobs in progress use it to see whether this still exists.
  std::shared_ptr<Lender*> self_ = std::make_shared<Lender*>(this);
};

}  // namespace pvrdma::transport::hca
