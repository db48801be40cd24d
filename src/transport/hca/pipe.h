// Pipe: an RC QP between two hosts: messages out and in, in slots, with credits and keep-alive. Whoever
// dialled it sends its requests and datagrams there; answers come back.
//
// A slot is what one SEND carries (docs/wire_format.md): a head of 8 bytes and any number of frames as on a
// lane, each whole. Small frames of one turn share a slot; what is larger than a slot's payload goes in
// pieces.
//
// Credits: each end has said how many receives it has posted, and says in each head how many it has posted
// anew since. Nobody sends without a credit, so the QP never finds no receive (RNR). The last few are for
// slots without frames, which tell credits alone: so an acceptor that waits for room for its answers, and
// takes no request meanwhile, hears of the room.
//
// A pipe that breaks says so in broken() and is destroyed by its owner in the next turn.
//
// Nothing here allocates once it is made.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/time.h"
#include "guestmem/host_span.h"
#include "transport/hca/hca_shared.h"
#include "transport/hca/lender.h"
#include "transport/hca/pipe_end.h"
#include "transport/hca/puller.h"
#include "transport/wire/format.h"
#include "verbs/payload.h"

namespace pvrdma::transport::hca {

inline constexpr Duration kPingPause = std::chrono::seconds(1);
inline constexpr Duration kSilenceMax = std::chrono::seconds(3);
inline constexpr std::uint32_t kReservedCredits = 16;
inline constexpr std::uint32_t kSignalEvery = 16;
// Bytes that one read asks for at most: what an acceptor keeps room for.
inline constexpr std::uint32_t kReadBytesMax = 64 * 1024;

class Pipe final {
 public:
  enum class Role : std::uint8_t { kDialler, kAcceptor };

  // `shared` is borrowed and outlives this. `end` is connected.
  Pipe(HcaShared& shared, Role role, HostId peer, std::unique_ptr<PipeEnd> end, Instant now);
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // Something has come from the peer: both directions work.
  bool is_up() const { return heard_ && !broken(); }
  bool broken() const { return broken_; }
  // Why it broke: one clause. Empty while it works.
  std::string_view trouble() const { return trouble_.view(); }
  // Whether one of the two hosts wanted it to end.
  bool ended_in_order() const { return in_order_; }

  // is_up() only. How many of the bytes (1: none) a request may carry now; 0: take_drained() tells when to
  // ask again.
  std::uint32_t room(std::uint32_t wanted);
  // There is room after there was none, since the last call.
  bool take_drained();
  // is_up() only. After room().
  void send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload, Instant now);
  // The same, with its payload lent to the peer. False: it cannot be, and nothing was sent.
  bool lend(const verbs::Engine& engine, SegmentId segment, const verbs::Request& request,
            const guestmem::SpanList& payload, Instant now);
  // A read is about to be sent whose answer is worth to be lent.
  void expect_loan(const verbs::Engine& engine, SegmentId segment, const verbs::Request& request,
                   Instant now);
  // False: there was no room, and it was dropped.
  bool send(SegmentId segment, const verbs::Response& response, const guestmem::SpanList& payload,
            Instant now);
  // The same, with its payload lent to the peer; Inbound::on_returned() gets `rkey` back. False: it cannot
  // be, and nothing was sent.
  bool lend(SegmentId segment, const verbs::Response& response, std::uint32_t rkey,
            const guestmem::SpanList& payload);
  bool send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
            Instant now);
  void flush(Instant now);

  // Of its bulk QPs: see Lender and Puller.
  void stop(SegmentId segment, const verbs::Connection& connection);
  void stop_all(const verbs::Engine& engine);
  // On an empty stack. May throw bad_alloc, and is called again then.
  void turn(Instant now);

  // After run_soon(), in the shard's turn: a bounded amount of work; true: there is more.
  bool run(Instant now);
  void on_time(Instant now);
  Instant next_deadline() const;

  // Says goodbye if that is possible, and ends.
  void close(wire::GoodbyeReason reason, std::string_view sentence, Instant now);
  // Ends without a word. The device touches nothing of it any more when its completions have been polled.
  void break_off(std::string_view trouble, std::string_view detail = {});

  // What its Lender or Puller needs of it.
  HostId peer() const { return peer_; }
  const QpConnection& connection() const { return end_->connection(); }
  // READs at a time of a bulk QP, that both hosts can do; 0: there are no bulk QPs.
  std::uint32_t reads() const { return std::min(end_->here().reads, end_->peer_reads()); }
  bool lends_answers() const { return end_->peer_lends_answers(); }  // whether the peer does
  std::uint64_t next_sequence() const { return next_send_; }
  // Sends a frame that has next_sequence(). False: there is no room now, and nothing was sent.
  bool send_frame(std::span<const std::byte> frame);
  // Whether there is room for the answer to any request.
  bool may_answer() const;
  // run() is called in the next turn.
  void run_soon();

  // For its destruction, elsewhere. Afterwards this does nothing any more.
  std::unique_ptr<PipeEnd> release();

 private:
  struct Received {
    std::uint32_t slot;
    std::uint32_t begin;  // of what is not read yet
    std::uint32_t end;
  };

  // Output (pipe.cc).
  std::uint32_t free_slots() const;
  bool open_slot();
  void post_open(Instant now);
  void put(std::span<const std::byte> head, guestmem::SpanReader& payload, std::uint32_t bytes, Instant now);
  void count_lent(std::uint32_t bytes);
  template <typename Message>
  bool send_pieces(SegmentId segment, const Message& message, const guestmem::SpanList& payload, Instant now);
  void tell_credits(Instant now);
  void flush_later();
  void notice_room();

  // Input (pipe_input.cc).
  void take(const NicCompletion& completion, Instant now);
  void take_slot(std::uint32_t slot, std::uint32_t bytes, Instant now);
  void read_batch(Instant now);
  // False: it waits for room for its answer, or the pipe is broken.
  bool take_frame(Received& from, Instant now);
  void deliver(const wire::Frame& frame, std::span<std::byte> payload, Instant now);
  bool take_bulk_frame(Received& from, std::span<const std::byte> rest, Instant now);
  bool is_next(std::uint64_t sequence);
  void repost(std::uint32_t slot);

  HcaShared& shared_;
  const Role role_;
  const HostId peer_;
  std::unique_ptr<PipeEnd> end_;  // null: released
  bool heard_ = false;
  bool broken_ = false;
  bool in_order_ = false;
  wire::Sentence trouble_;
  Instant last_heard_;
  Instant last_sent_;

  // Slots sent: numbers that count up; a slot's place is its number modulo the slots.
  std::uint64_t posted_ = 0;
  std::uint64_t retired_ = 0;  // all before it
  std::uint64_t credits_;      // may be posted in all, as the peer has said
  bool is_open_ = false;       // slot posted_ has frames that are not posted
  std::uint32_t open_bytes_ = 0;
  std::uint64_t next_send_ = 0;  // sequence of frames
  bool unflushed_ = false;       // in shared_.unflushed
  bool wanted_ = false;          // room, in vain
  bool drained_ = false;
  bool frame_waits_ = false;  // what send_frame() had no room for comes before all that is longer

  std::array<Received, kSlotsMax> received_;  // a ring: filled, not read to their end
  std::uint32_t first_received_ = 0;
  std::uint32_t received_count_ = 0;
  std::uint64_t reposted_ = 0;
  std::uint64_t told_ = 0;  // of these to the peer
  std::uint64_t next_receive_ = 0;
  bool active_ = false;  // in shared_.active

  // By role; behind all that they use.
  std::optional<Lender> lender_;
  std::optional<Puller> puller_;
};

}  // namespace pvrdma::transport::hca
