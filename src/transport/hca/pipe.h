// Pipe: an RC QP between two hosts that carries messages in slots, with credits and keep-alive. The host that
// dialled the pipe sends its requests and datagrams there, and answers come back.
//
// A slot is the content of one SEND (docs/wire_format.md): a head of 8 bytes and any number of complete
// frames in the format of a lane. Small frames of one turn share a slot. Payload larger than a slot's is sent
// in pieces.
//
// Credits: each end announces how many receives it has posted, and each head says how many it has reposted
// since. Neither end sends without a credit, so a SEND always finds a posted receive (no RNR). The last few
// credits are reserved for slots without frames, which only grant credits. So an acceptor that waits for room
// for its answers, and takes no requests meanwhile, still learns of new room.
//
// A pipe that breaks reports it in broken(); its owner destroys it in the next turn.
//
// After construction, nothing here allocates.
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
// The most bytes that one read asks for. The acceptor keeps room for an answer of this size.
inline constexpr std::uint32_t kReadBytesMax = 64 * 1024;

class Pipe final {
 public:
  enum class Role : std::uint8_t { kDialler, kAcceptor };

  // `shared` is borrowed and outlives this. `end` is connected; it stays the caller's if memory runs out.
  Pipe(HcaShared& shared, Role role, HostId peer, std::unique_ptr<PipeEnd>& end, Instant now);
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // The peer has sent something: both directions work.
  bool is_up() const { return heard_ && !broken(); }
  bool broken() const { return broken_; }
  // Why it broke: one clause. Empty while it works.
  std::string_view trouble() const { return trouble_.view(); }
  // Whether one of the two hosts ended it deliberately.
  bool ended_in_order() const { return in_order_; }

  // Requires is_up(). How many of the `wanted` bytes (1 if there are no bytes) a request may carry now. 0:
  // ask again after take_drained() returns true.
  std::uint32_t room(std::uint32_t wanted);
  // Whether room became available, after there was none, since the last call.
  bool take_drained();
  // Requires is_up() and a preceding room().
  void send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload, Instant now);
  // Sends the request with its payload lent to the peer. False: it cannot be lent, and nothing was sent.
  bool lend(const verbs::Engine& engine, SegmentId segment, const verbs::Request& request,
            const guestmem::SpanList& payload, Instant now);
  // A read is about to be sent whose answer is worth lending.
  void expect_loan(const verbs::Engine& engine, SegmentId segment, const verbs::Request& request,
                   Instant now);
  // False: no slot was free, and the message was dropped.
  bool send(SegmentId segment, const verbs::Response& response, const guestmem::SpanList& payload,
            Instant now);
  // Sends the response with its payload lent to the peer; Inbound::on_returned() later gets `rkey` back.
  // False: it cannot be lent, and nothing was sent.
  bool lend(SegmentId segment, const verbs::Response& response, std::uint32_t rkey,
            const guestmem::SpanList& payload);
  bool send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
            Instant now);
  void flush(Instant now);

  // Ends the loans over bulk QPs: see Lender and Puller.
  void stop(SegmentId segment, const verbs::Connection& connection);
  void stop_all(const verbs::Engine& engine);
  // On an empty stack. May throw bad_alloc; the caller then calls it again.
  void turn(Instant now);

  // Called in the shard's turn after run_soon(). Does a bounded amount of work; true: there is more.
  bool run(Instant now);
  void on_time(Instant now);
  Instant next_deadline() const;

  // Says goodbye if a slot is free, and ends.
  void close(wire::GoodbyeReason reason, std::string_view sentence, Instant now);
  // Ends without a goodbye. Once the completions have been polled, the device accesses none of its memory.
  void break_off(std::string_view trouble, std::string_view detail = {});

  // For the Lender and the Puller.
  HostId peer() const { return peer_; }
  const QpConnection& connection() const { return end_->connection(); }
  // The most outstanding READs of a bulk QP that both hosts support; 0: there are no bulk QPs.
  std::uint32_t reads() const { return std::min(end_->here().reads, end_->peer_reads()); }
  bool lends_answers() const { return end_->peer_lends_answers(); }  // whether the peer does
  std::uint64_t next_sequence() const { return next_send_; }
  // Sends a frame that was encoded with next_sequence(). False: no slot is free, and nothing was sent.
  bool send_frame(std::span<const std::byte> frame);
  // Whether there is room for the answer to any request.
  bool may_answer() const;
  // Makes the next turn call run().
  void run_soon();

  // Gives up the end, for destruction elsewhere. Afterwards the pipe does nothing.
  std::unique_ptr<PipeEnd> release();

 private:
  struct Received {
    std::uint32_t slot;
    std::uint32_t begin;  // of the unread part
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
  // False: the frame waits for room for its answer, or the pipe is broken.
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

  // Sent slots. Their numbers count up; a slot's index is its number modulo the slots.
  std::uint64_t posted_ = 0;
  std::uint64_t retired_ = 0;  // all slots before this one have completed
  std::uint64_t credits_;      // how many may be posted in total, as granted by the peer
  bool is_open_ = false;       // slot posted_ has frames and is not posted yet
  std::uint32_t open_bytes_ = 0;
  std::uint64_t next_send_ = 0;  // the next frame's sequence number
  bool unflushed_ = false;       // in shared_.unflushed
  bool wanted_ = false;          // a caller was refused room
  bool drained_ = false;
  bool frame_waits_ = false;  // a frame that send_frame() refused goes before larger messages

  std::array<Received, kSlotsMax> received_;  // a ring: slots that are not read to their end
  std::uint32_t first_received_ = 0;
  std::uint32_t received_count_ = 0;
  std::uint64_t reposted_ = 0;
  std::uint64_t told_ = 0;  // how many of these were granted to the peer
  std::uint64_t next_receive_ = 0;
  bool active_ = false;  // in shared_.active

  // One of the two, by role. Declared last, because they use the members above.
  std::optional<Lender> lender_;
  std::optional<Puller> puller_;
};

}  // namespace pvrdma::transport::hca
