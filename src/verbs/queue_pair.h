// QueuePair: the state of one QP. The rules live elsewhere: requester.cc (send side), responder.cc (receive
// side of RC), datagram.cc (UD and GSI), completion.cc (CQEs, flush), qp_attributes.cc (MODIFY_QP). Thread:
// shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "abi/commands.h"
#include "abi/wqe.h"
#include "base/time.h"
#include "guestmem/ring.h"
#include "verbs/account.h"
#include "verbs/atomic_replays.h"
#include "verbs/completion_queue.h"
#include "verbs/ids.h"
#include "verbs/limits.h"
#include "verbs/loans.h"
#include "verbs/message.h"
#include "verbs/packets.h"
#include "verbs/path.h"
#include "verbs/qp_attributes.h"
#include "verbs/queue_link.h"
#include "verbs/receive_queue.h"

namespace pvrdma::verbs {

// The operation that a work request asks of the peer. Meaningless for a work request that this adapter
// executes alone.
RequestOp request_op(abi::Opcode opcode);

// A private, validated copy of a send WQE. It is valid from fetch to completion; then another WQE overwrites
// it.
struct SendWorkState {
  enum class State : std::uint8_t {
    kQueued,  // a part of it must still be sent, or sent again
    kSent,    // all of it was sent; it waits for the peer's answer
    kDone,    // executed; completes when it is the oldest
    kFailed,  // completes with `status` when it is the oldest, and takes the QP to ERR
  };

  std::uint64_t wr_id = 0;
  std::uint64_t remote_addr = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::uint32_t rkey = 0;
  std::uint32_t extra_value = 0;  // immediate data as in guest memory, or the rkey to invalidate
  std::uint32_t length = 0;       // bytes, sum of the SGEs
  std::uint32_t sent = 0;         // bytes sent; for a read: bytes asked for
  // For a read: bytes placed. Otherwise: bytes that the peer is known to have executed. A repetition starts
  // there.
  std::uint32_t confirmed = 0;
  std::uint32_t fetched = 0;  // for a read with `fetches` in progress: bytes placed or being fetched
  MessageNumber number;
  Psn psn;  // of its first packet
  abi::Opcode opcode{};
  abi::CompletionStatus status{};
  std::uint8_t send_flags = 0;
  std::uint8_t sge_count = 0;
  State state = State::kQueued;
  bool started = false;      // sending has begun; a read or atomic counts in reads_outstanding
  bool lent = false;         // changed by Loans only, like `fetches`
  std::uint8_t fetches = 0;  // pieces of its answer that are being fetched

  bool is_read_or_atomic() const {
    return opcode == abi::Opcode::kRdmaRead || opcode == abi::Opcode::kAtomicCmpAndSwp ||
           opcode == abi::Opcode::kAtomicFetchAndAdd;
  }
  // For a read: the offset at which the next piece of its answer belongs.
  std::uint32_t reached() const { return fetches != 0 ? fetched : confirmed; }
  // Whether the peer owes an answer, provided that it has received everything that was sent.
  bool is_answer_due() const {
    if (!started || state != State::kQueued) return started;
    if (opcode == abi::Opcode::kRdmaRead) return sent != confirmed;
    return sent / kProgressBytes != confirmed / kProgressBytes;
  }
  // Executed by this adapter alone; takes no PSN.
  bool is_local() const { return opcode == abi::Opcode::kLocalInv || opcode == abi::Opcode::kFastRegMr; }
};

struct SendWork : SendWorkState {
  abi::FastRegFields fast_reg;  // valid for kFastRegMr only; otherwise left from an earlier WQE
};

// Work requests between fetch and completion, oldest first: a ring allocated with the QP, about 2 KiB.
class SendWindow {
 public:
  explicit SendWindow(std::uint32_t max_sge);

  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ == slots_; }
  std::uint32_t slots() const { return slots_; }
  // Positions count up without end (modulo 2^32). head() is the oldest, tail() one past the newest.
  static bool before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }
  std::uint32_t head() const { return head_; }
  std::uint32_t tail() const { return tail_; }

  // The position of the work request with that message number; tail() if there is none.
  std::uint32_t find(MessageNumber number) {
    std::uint32_t position = head_;
    while (position != tail_ && (at(position).is_local() || at(position).number != number)) ++position;
    return position;
  }

  SendWork& at(std::uint32_t position) { return works_[position & (slots_ - 1)]; }
  std::span<abi::Sge> sges(std::uint32_t position) {
    return {sges_.get() + static_cast<std::size_t>(position & (slots_ - 1)) * max_sge_,
            at(position).sge_count};
  }
  // The slot at tail, to be filled before push().
  SendWork& staging() { return at(tail_); }
  abi::Sge* staging_sges() { return sges_.get() + static_cast<std::size_t>(tail_ & (slots_ - 1)) * max_sge_; }
  // Sets the position of the next work request. The window must be empty.
  void begin_at(std::uint32_t position) { head_ = tail_ = position; }
  void push() { ++tail_; }
  void pop() { ++head_; }
  void clear() { head_ = tail_ = 0; }

 private:
  std::uint32_t max_sge_;
  std::uint32_t slots_;  // a power of two
  std::unique_ptr<SendWork[]> works_;
  std::unique_ptr<abi::Sge[]> sges_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
};

// The state of a QP's send side besides its work requests. RESET assigns a new value.
struct SendState {
  // The position of the work request being sent; window.tail() if all fetched ones are sent.
  std::uint32_t sending = 0;
  MessageNumber next_number;  // of the next work request to be fetched
  Psn next_psn;               // of its first packet
  std::uint32_t reads_outstanding = 0;
  bool stopped = false;  // a work request has failed: no other is begun
  std::uint8_t retries_left = 0;
  std::uint8_t rnr_retries_left = 0;
  std::uint8_t path_retries_left = 0;
  Instant spared_until = Instant::never();  // silence costs no retry until then; never: no such time runs
  Instant ack_deadline = Instant::never();  // when the oldest unanswered request counts as lost
  Instant rnr_until = Instant::never();     // sending pauses until then; never: it does not pause
  bool drained_reported = false;            // SQ_DRAINED was raised in this SQD
  bool waits_for_path = false;              // the path had no room for the next piece
  bool window_closed = false;               // sending stopped because too much is in flight
  Instant repeat_at = Instant::never();     // the path's own time limit for an answer
  bool repeats = false;                     // requests that were sent before go out again, up to `repeats_to`
  Psn repeats_to;
  // Bytes sent and not confirmed, of all open work requests. Changed by move() only, and computed by
  // restore().
  std::uint32_t bytes_in_flight = 0;       // of sends and writes
  std::uint32_t read_bytes_in_flight = 0;  // of reads and atomics: asked for and not received

  bool resting() const { return rnr_until != Instant::never(); }
  std::uint32_t& in_flight_with(const SendWork& work) {
    return work.is_read_or_atomic() ? read_bytes_in_flight : bytes_in_flight;
  }
  void move(SendWork& work, std::uint32_t sent, std::uint32_t confirmed) {
    in_flight_with(work) += (sent - confirmed) - (work.sent - work.confirmed);
    work.sent = sent;
    work.confirmed = confirmed;
  }
  void finish(SendWork& work) {
    move(work, work.length, work.length);
    work.state = SendWork::State::kDone;
  }
  // `work` will complete with `status` when it is the oldest.
  void fail(SendWork& work, abi::CompletionStatus status) {
    move(work, work.confirmed, work.confirmed);
    work.state = SendWork::State::kFailed;
    work.status = status;
    stopped = true;
  }
};

struct SendSide : SendState {
  SendSide(guestmem::GuestRing r, std::uint32_t max_sge) : ring(std::move(r)), window(max_sge) {}

  void reset() {
    static_cast<SendState&>(*this) = {};
    ring.resync();
    window.clear();
  }

  // Removes the oldest work request, whether it was sent or not.
  void pop() {
    if (sending == window.head()) ++sending;
    window.pop();
  }

  guestmem::GuestRing ring;
  SendWindow window;
};

// Whether a request is missing although later ones have come, and whether the peer knows.
enum class Gap : std::uint8_t {
  kNone,
  // Requests were dropped because their source was not known yet or the port was stopped. The peer was not
  // told since the last one.
  kEarly,
  kReported,  // a kNakSequence or an RNR NAK for `expected` was sent
};

// Requests that were dropped because they came early, and may still have to be asked for. Some may be
// executed all the same, because copies came from the peer's earlier place; the answers to those went there.
struct EarlyRequests {
  std::optional<PeerPlace> from;            // empty: there are none
  Instant last_at{};                        // when the last one came
  std::optional<MessageNumber> first_read;  // the first read or atomic
  std::optional<MessageNumber> first_other;
  std::optional<MessageNumber> last;
};

// The state of a QP's receive side besides its receive queue. RESET assigns a new value.
struct ReceiveState {
  MessageNumber expected;
  Psn psn;             // of the first packet of message `expected`
  UnderWay under_way;  // of message `expected`
  // Reads have arrived as packets. The requester may have asked for one read in several parts, and `expected`
  // has counted each part as a message. Then the two ends disagree about message numbers, but they agree
  // about PSNs.
  bool counts_parts = false;
  Gap gap = Gap::kNone;
  bool holds_receive = false;  // `receive` belongs to the message in progress
  bool established_reported = false;
  bool last_wqe_reported = false;
  // The last answer was an RNR NAK; not saved: the peer's timer ends the pause, too.
  bool peer_pauses = false;
  EarlyRequests early;  // not saved: a loaded QP knows only that there is a gap
  ReceiveWork receive;
  AtomicReplays replays;
};

struct ReceiveSide : ReceiveState {
  std::optional<ReceiveQueue> queue;  // absent if the QP uses an SRQ
  SharedReceiveQueue* srq = nullptr;  // borrowed; the engine keeps it alive while the QP exists

  // Takes the next receive WQE into `receive`.
  Taken take() { return srq != nullptr ? srq->take(receive) : queue->take(receive); }
  void reset() {
    static_cast<ReceiveState&>(*this) = {};
    if (queue) queue->reset();
  }
};

struct SavedQp;

class QueuePair {
 public:
  struct Identity {
    Qpn qpn;
    QpHandle handle;
    abi::QpType type{};
    PdHandle pd;
    ContextHandle context;
    bool signal_all = false;
    abi::QpCap cap{};
  };

  QueuePair(const Identity& id, CompletionQueue& cq_of_sends, CompletionQueue& cq_of_receives,
            SendSide send_side, ReceiveSide receive_side)
      : identity(id),
        send_cq(cq_of_sends),
        recv_cq(cq_of_receives),
        send(std::move(send_side)),
        receive(std::move(receive_side)) {}

  bool is_kernel() const { return identity.context == kKernelContext; }
  bool is_datagram() const { return identity.type != abi::QpType::kRc; }
  abi::QpState state() const { return attributes.state; }

  // The two ends of this QP's connection (RC, from RTR on).
  Endpoint local() const { return {local_gid, identity.qpn}; }
  Endpoint remote() const { return {attributes.dgid, attributes.dest_qpn}; }
  Connection connection() const {
    const abi::GlobalRoute& grh = attributes.ah.grh;
    return {local(),
            remote(),
            {.next_hop = attributes.ah.dmac,
             .traffic_class = grh.traffic_class,
             .hop_limit = grh.hop_limit,
             .flow_label = grh.flow_label & 0xf'ffff,
             .roce = local_roce}};
  }
  // Whether a message from `from` to `to` belongs to this connection.
  bool is_between(const Endpoint& from, const Endpoint& to) const {
    return from.qpn == attributes.dest_qpn && to.qpn == identity.qpn && from.gid == attributes.dgid &&
           to.gid == local_gid;
  }

  // The work request to be sent next; null if all fetched ones are sent.
  const SendWork* next_work();
  // The PSNs of the next packet to be sent and of the next packet expected, as QUERY_QP returns them.
  Psn next_psn();
  Psn expected_psn() const;
  // The PSN of the oldest packet that is not confirmed; next_psn() if all are confirmed.
  Psn oldest_psn();
  // Whether the peer owes an answer to the oldest work request, provided that it has received everything that
  // was sent. Packets are always answered. The window must not be empty.
  bool is_answer_due();

  // Call it between two turns. It saves deadlines as the time left from `now` on.
  SavedQp save(Instant now);
  // Sets the state of a new QP, except what it was made with (identity, queues, rings). Returns why `saved`
  // is invalid, or null.
  const char* restore(const SavedQp& saved, const Rules& rules, const Limits& limits, Instant now);

  // Returns to the state of a new QP: drops positions, window and sequence numbers. The guest zeroes its ring
  // words afterwards.
  void reset();

  const Identity identity;
  CompletionQueue& send_cq;  // borrowed; the engine keeps them alive while the QP exists
  CompletionQueue& recv_cq;
  QpAttributes attributes;
  Gid local_gid;  // the GID at sgid_index when the QP went to RTR
  RoceVersion local_roce{};
  PathSlot path;  // open from RTR on
  SendSide send;
  ReceiveSide receive;

  std::uint64_t tx_messages = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_messages = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t retransmits = 0;

  Account::Holding held;  // this QP and its pages

  QpLoans loans{this};                       // used by Loans only
  QueueLink<QueuePair> context_link{this};   // used by MappedDoorbells only
  QueueLink<QueuePair> receiver_link{this};  // in SharedReceiveQueue::waiting; used by Responder only

  // Used by Scheduler only.
  QueueLink<QueuePair> ready_link{this};
  QueueLink<QueuePair> waiting_link{this};
  Instant armed_for = Instant::never();  // never: not armed
  std::uint32_t timer_place = 0;         // valid while armed
};

}  // namespace pvrdma::verbs
