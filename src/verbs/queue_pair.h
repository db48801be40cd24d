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

// What a work request asks the peer for; meaningless for one that this adapter executes alone.
RequestOp request_op(abi::Opcode opcode);

// A private, validated copy of a send WQE, from fetch to completion: a value, which the next WQE assigns
// anew.
struct SendWorkState {
  enum class State : std::uint8_t {
    kQueued,  // not all of it was sent (again)
    kSent,    // waits for the peer
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
  std::uint32_t sent = 0;         // bytes sent; of a read: asked for
  std::uint32_t confirmed =
      0;  // of a read: bytes placed; else: bytes known to be executed. Sending again starts there
  std::uint32_t fetched = 0;  // of a read of which `fetches` are under way: bytes placed, or by one of them
  MessageNumber number;
  Psn psn;  // of its first packet
  abi::Opcode opcode{};
  abi::CompletionStatus status{};
  std::uint8_t send_flags = 0;
  std::uint8_t sge_count = 0;
  State state = State::kQueued;
  bool started = false;      // counted in SendSide::reads_outstanding
  bool lent = false;         // Loans' own, as `fetches`
  std::uint8_t fetches = 0;  // pieces of its answer that are under way

  bool is_read_or_atomic() const {
    return opcode == abi::Opcode::kRdmaRead || opcode == abi::Opcode::kAtomicCmpAndSwp ||
           opcode == abi::Opcode::kAtomicFetchAndAdd;
  }
  // Of a read: where the next of its answer belongs.
  std::uint32_t reached() const { return fetches != 0 ? fetched : confirmed; }
  // Whether the peer, if it got all that was sent, has something to answer.
  bool is_answer_due() const {
    if (!started || state != State::kQueued) return started;
    if (opcode == abi::Opcode::kRdmaRead) return sent != confirmed;
    return sent / kProgressBytes != confirmed / kProgressBytes;
  }
  // Executed by this adapter alone; takes no PSN.
  bool is_local() const { return opcode == abi::Opcode::kLocalInv || opcode == abi::Opcode::kFastRegMr; }
};

struct SendWork : SendWorkState {
  abi::FastRegFields fast_reg;  // of a fast register only, and left over from one elsewhere
};

// Work requests between fetch and completion, oldest first: a ring allocated with the QP, about 2 KiB.
class SendWindow {
 public:
  explicit SendWindow(std::uint32_t max_sge);

  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ == slots_; }
  std::uint32_t slots() const { return slots_; }
  // Positions count up for ever (modulo 2^32); head is the oldest, tail one past the newest.
  static bool before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }
  std::uint32_t head() const { return head_; }
  std::uint32_t tail() const { return tail_; }

  // Position of the work request whose message that is; tail(): there is none.
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
  // An empty window's next position.
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

// What the send side of a QP knows besides the work requests: a value, which RESET assigns anew.
struct SendState {
  std::uint32_t sending =
      0;  // position of the work request being sent; window.tail() = all fetched ones are sent
  MessageNumber next_number;  // of the next work request to be fetched
  Psn next_psn;               // of its first packet
  std::uint32_t reads_outstanding = 0;
  bool stopped = false;  // a work request has failed: no other is begun
  std::uint8_t retries_left = 0;
  std::uint8_t rnr_retries_left = 0;
  std::uint8_t path_retries_left = 0;
  Instant spared_until = Instant::never();  // silence that costs no retry ends then; never: there is none
  Instant ack_deadline = Instant::never();  // when the oldest unanswered request counts as lost
  Instant rnr_until = Instant::never();     // sending rests until then; never = it does not rest
  bool drained_reported = false;            // SQ_DRAINED was raised in this SQD
  bool waits_for_path = false;              // the path had no room for what is to be sent next
  bool window_closed = false;               // sending stopped because too much is in flight
  Instant repeat_at = Instant::never();     // the path's own time limit for an answer
  bool repeats = false;                     // what was sent already goes out again, up to `repeats_to`
  Psn repeats_to;
  // Sent and not confirmed, of all work requests that are open. Changed by move() only.
  std::uint32_t bytes_in_flight = 0;       // of sends and writes
  std::uint32_t read_bytes_in_flight = 0;  // of reads and atomics: asked for and not here

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
  // `work` completes with `status` when it is the oldest.
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

  // The oldest work request is over, sent or not.
  void pop() {
    if (sending == window.head()) ++sending;
    window.pop();
  }

  guestmem::GuestRing ring;
  SendWindow window;
};

// What is known of a request that is missing while later ones came.
enum class Gap : std::uint8_t {
  kNone,
  kEarly,  // what came was dropped, as not yet known to be the peer's, or by a stopped port: it is not told
  kReported,  // a kNakSequence is out for `expected`
};

// What the receive side of a QP knows besides its receives: a value, which RESET assigns anew.
struct ReceiveState {
  MessageNumber expected;
  Psn psn;             // of the first packet of message `expected`
  UnderWay under_way;  // of message `expected`
  // Packets brought reads, which are counted as they are asked for: in parts, where the requester counts one
  // message. Both agree on PSNs.
  bool counts_parts = false;
  Gap gap = Gap::kNone;
  bool holds_receive = false;  // `receive` belongs to the message under way
  bool established_reported = false;
  bool last_wqe_reported = false;
  ReceiveWork receive;
  AtomicReplays replays;
};

struct ReceiveSide : ReceiveState {
  std::optional<ReceiveQueue> queue;  // none with an SRQ
  SharedReceiveQueue* srq = nullptr;  // borrowed; the engine keeps it alive while the QP exists

  // The next receive WQE, into `receive`.
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

  // Where requests of this QP come from and go to (RC, from RTR on).
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
  // Whether a message that says it is from `from` to `to` is of this connection.
  bool is_between(const Endpoint& from, const Endpoint& to) const {
    return from.qpn == attributes.dest_qpn && to.qpn == identity.qpn && from.gid == attributes.dgid &&
           to.gid == local_gid;
  }

  // The work request to be sent next; null: none was fetched.
  const SendWork* next_work();
  // Of the next packet to be sent, and of the next one expected, as QUERY_QP tells them.
  Psn next_psn();
  Psn expected_psn() const;
  // Of the oldest packet sent and not confirmed; next_psn() when there is none.
  Psn oldest_psn();
  // Whether the peer, if it got all that was sent of the oldest work request, has something to answer: to
  // packets it always has. There is one.
  bool is_answer_due();

  // Between two turns; times become time left from `now` on.
  SavedQp save(Instant now);
  // What a new QP knows besides what it was made with (identity, queues, rings). Why not; null: it does.
  const char* restore(const SavedQp& saved, const Rules& rules, const Limits& limits, Instant now);

  // Back to power-on: drops positions, window and sequence numbers. The guest zeroes its ring words
  // afterwards.
  void reset();

  const Identity identity;
  CompletionQueue& send_cq;  // borrowed; the engine keeps them alive while the QP exists
  CompletionQueue& recv_cq;
  QpAttributes attributes;
  Gid local_gid;  // of sgid_index when the QP went to RTR
  RoceVersion local_roce{};
  PathSlot path;  // open from RTR on
  SendSide send;
  ReceiveSide receive;

  std::uint64_t tx_messages = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_messages = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t retransmits = 0;

  Account::Holding held;  // it and its pages

  QpLoans loans{this};                      // Loans' own
  QueueLink<QueuePair> context_link{this};  // MappedDoorbells' own

  // Scheduler's own.
  QueueLink<QueuePair> ready_link{this};
  QueueLink<QueuePair> waiting_link{this};
  Instant armed_for = Instant::never();  // never = not armed
  std::uint32_t timer_place = 0;         // while armed
};

}  // namespace pvrdma::verbs
