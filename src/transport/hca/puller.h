// Puller: the acceptor's side of a pipe's bulk QPs: fetches what long requests lend, by RDMA READ, from the
// peer's guest straight to where the engine here wants it; and lends what long reads ask for.
//
// A request that is lent is handed to its engine as it comes; the engine says where its payload goes, and
// gets the request once more when it is there (verbs/payload.h). Meanwhile whatever else comes for the same
// connection waits here, in order, in a fixed number of places; when none is left the pipe reads no further.
// Writes that wait behind one that is being fetched are fetched with it, over the same QP: so they land in
// order.
//
// A QP that fails, or is stopped, takes along what waits for it and all that waits of its stripe; of that
// nothing is taken any more until the peer has heard of it and says everything again.
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

// Requests that wait, or are being fetched, of one pipe.
inline constexpr std::size_t kHeldMax = 48;
// Answers that are lent, or were and no engine has been told, of one pipe.
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
  // A lent request. kNoRoom: once more later.
  Taken take(const Lent& lent, Instant now);
  // One with its payload. kNo: it is not this one's business, nothing is before it.
  Taken take(SegmentId segment, const verbs::Request& request, std::span<const std::byte> payload);

  // Lends such an answer; Inbound::on_returned() gets `rkey` back. False: it cannot be, and nothing was sent.
  bool lend(SegmentId segment, const verbs::Response& response, std::uint32_t rkey,
            const guestmem::SpanList& payload);
  void on_returned(const BulkReturned& returned);

  void on_offer(const BulkOffer& offer, Instant now);
  void on_stopped(const BulkStopped& stopped);

  // Nothing is written or read for the connection any more when it returns; for the engine; for anybody.
  void stop(SegmentId segment, const verbs::Connection& connection);
  void stop_all(const verbs::Engine& engine);
  void stop_everything();

  // Looks at READs that have ended. On an empty stack.
  void run(Instant now);
  // Says what is to be said.
  void turn(Instant now);
  // The same, of answers that are lent no more, before its end. On an empty stack.
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
    Runs runs;                                  // is_lent
    std::array<std::byte, kSlotPayload> bytes;  // otherwise, request.bytes of them
  };
  // An answer that is lent.
  struct Answer {
    verbs::Qpn qpn;
    std::uint32_t rkey = 0;
  };
  struct Bulk {
    Stripe stripe;  // seen from here
    verbs::Engine* engine = nullptr;
    std::shared_ptr<GuestMemory> memory;
    std::unique_ptr<BulkEnd> end;  // null: not connected yet, or no more
    bool is_down = false;
    bool tells_stop = false;
    bool has_completions = false;
    bool lacks_reads = false;  // some wait for room for theirs
    bool lacks_memory = false;

    // Answers lent, numbers that count up; one's place is its number modulo the places.
    bool stands_there = false;  // so that answers may be lent
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
  class Fetched;                                // Payload of a Held
  struct Job;

  // Seen from here.
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
  std::vector<Held> held_;  // kHeldMax from the first bulk QP on
  std::size_t held_count_ = 0;
  std::vector<Over> over_;  // of which no engine has been told; has room for all that are lent, too
  std::size_t answer_count_ = 0;
  std::size_t deaf_count_ = 0;  // bulks that are down and not forgotten
  std::uint64_t next_order_ = 1;
  bool has_completions_ = false;
  bool has_news_ = false;
  bool lacked_room_ = false;  // for another Held
  bool lacks_reads_ = false;  // said by fetch(): it is to be tried again
  bool is_starved_ = false;   // what waits, waits for room for its answers
  // Jobs under way ask whether it is still there.
  std::shared_ptr<Puller*> self_ = std::make_shared<Puller*>(this);
};

}  // namespace pvrdma::transport::hca
