// Puller: the acceptor's side of a pipe's bulk QPs. It fetches the payload of lent requests by RDMA READ,
// from the peer's guest directly to where the local engine wants it. It also lends the payload of answers to
// long reads.
//
// A lent request goes to its engine on arrival. The engine says where the payload belongs, and gets the
// request again once the payload is there (verbs/payload.h). Meanwhile other requests of the same connection
// wait here, in order, in a fixed number of places. When no place is free, the pipe stops reading. Writes
// that wait behind a fetch are fetched too, over the same QP, so they arrive in order.
//
// When a QP fails or is stopped, all waiting requests of its stripe are dropped. The Puller ignores the
// stripe's frames until the peer has been told and sends everything again.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "transport/hca/bulk_end.h"
#include "transport/hca/hca_shared.h"
#include "transport/hca/pipe_end.h"
#include "verbs/payload.h"

namespace pvrdma::transport::hca {

// The most requests of one pipe that wait or are being fetched.
inline constexpr std::size_t kHeldMax = 48;
// The most answers of one pipe that are lent, or whose end the engine has not been told yet.
inline constexpr std::size_t kAnswersMax = kBulksMax * kLentAnswersMax;

class Pipe;

class Puller final : private BulkEnd::User {
 public:
  // Both borrowed; they outlive this.
  Puller(Pipe& pipe, HcaShared& shared) : pipe_(pipe), shared_(shared) {}
  ~Puller() override;
  Puller(const Puller&) = delete;
  Puller& operator=(const Puller&) = delete;

  enum class Taken : std::uint8_t { kYes, kNo, kNoRoom };
  // Takes a lent request. kNoRoom: the caller tries again later.
  Taken take(const Lent& lent, Instant now);
  // Takes a request that carries its payload. kNo: no request of its connection waits, so the caller delivers
  // it.
  Taken take(SegmentId segment, const verbs::Request& request, std::span<const std::byte> payload);

  // Lends the payload of a response; Inbound::on_returned() later gets `rkey` back. False: it cannot be lent,
  // and nothing was sent.
  bool lend(SegmentId segment, const verbs::Response& response, std::uint32_t rkey,
            const guestmem::SpanList& payload);
  void on_returned(const BulkReturned& returned);

  void on_offer(const BulkOffer& offer, Instant now);
  void on_stopped(const BulkStopped& stopped);

  // After these return, the device accesses no memory for the connection, for the engine, or for any engine.
  void stop(SegmentId segment, const verbs::Connection& connection);
  void stop_all(const verbs::Engine& engine);
  void stop_everything();

  // Handles READs that have completed. On an empty stack.
  void run(Instant now);
  // Sends pending frames to the peer and pending returns to the engines.
  void turn(Instant now);
  // Tells the engines which answers are no longer lent. Called before destruction, on an empty stack.
  void give_back();

 private:
  enum class Progress : std::uint8_t { kFree, kWaits, kFetched, kBack };
  // A request that is not executed yet.
  struct Held {
    Progress progress = Progress::kFree;
    bool is_lent = false;
    std::uint64_t order = 0;
    SegmentId segment;
    verbs::Request request;
    std::uint32_t reads_left = 0;
    Runs runs;                                  // if is_lent
    std::array<std::byte, kSlotPayload> bytes;  // otherwise: request.bytes of them
  };
  // A lent answer.
  struct Answer {
    verbs::Qpn qpn;
    std::uint32_t rkey = 0;
  };
  struct Bulk {
    Stripe stripe;  // as seen from this host
    verbs::Engine* engine = nullptr;
    std::shared_ptr<GuestMemory> memory;  // null: it is down
    std::unique_ptr<BulkEnd> end;         // null: not connected yet, or ended
    std::uint64_t job = 0;                // the number of the job that makes `end`
    bool is_down = false;
    bool tells_stop = false;
    bool has_completions = false;
    bool lacks_reads = false;  // some requests wait until READs are available
    bool lacks_memory = false;

    // Lent answers. Their numbers count up; an entry's index is its number modulo the array's size.
    bool stands_there = false;  // the dialler's end is connected: answers may be lent
    std::array<Answer, kLentAnswersMax> answers;
    std::uint32_t lent = 0;
    std::uint32_t returned = 0;
  };
  struct Over {
    verbs::Engine* engine;
    SegmentId segment;
    verbs::Endpoint own;
    std::uint32_t rkey;
  };
  using Bulks = std::map<std::uint32_t, Bulk>;  // by id
  class Fetched;                                // the Payload of a Held
  struct Job;

  // As seen from this host.
  static Stripe stripe_of(const SegmentId& segment, const verbs::Request& request) {
    return hca::stripe_of(segment, request.to, request.from, request.from);
  }

  Held* place();
  Held* next_of(const SegmentId& segment, const verbs::Request& request, std::uint64_t order = 0);
  bool is_deaf_to(const SegmentId& segment, const verbs::Request& request) const;
  void hand_over(Held& held, Instant now);
  void go_on(SegmentId segment, const verbs::Request& like, Instant now);
  void look_ahead(SegmentId segment, const verbs::Request& like, Instant now);
  verbs::Placed fetch(Held& held, const guestmem::SpanList& target);
  Bulk* find(const Stripe& stripe);
  void refuse(std::uint32_t id);
  void end_answers(Bulk& bulk);
  void on_connected(Job& job);
  void drop(Bulk& bulk);
  Bulks::iterator forget(Bulks::iterator bulk);
  void fail(Bulk& bulk);
  void poll(Bulk& bulk, Instant now);
  void on_bulk_completions(BulkEnd& end) override;

  Pipe& pipe_;
  HcaShared& shared_;
  Bulks bulks_;
  std::vector<Held> held_;  // has kHeldMax entries once there is a bulk QP
  std::size_t held_count_ = 0;
  std::vector<Over> over_;  // returns not told to an engine yet; has capacity for all lent answers
  std::size_t answer_count_ = 0;
  std::size_t deaf_count_ = 0;  // bulks that are down but not forgotten
  std::uint64_t next_order_ = 1;
  std::uint64_t next_job_ = 1;
  bool has_completions_ = false;
  bool has_news_ = false;
  bool lacked_room_ = false;  // a request found no free Held
  bool lacks_reads_ = false;  // set by fetch(): try again later
  bool is_starved_ = false;   // requests wait for room for their answers
  // Jobs in progress use it to see whether this still exists.
  std::shared_ptr<Puller*> self_ = std::make_shared<Puller*>(this);
};

}  // namespace pvrdma::transport::hca
