// Saves and loads a QueuePair (ADR 16). After loading, the engine trusts the values like those of commands
// and WQEs, so they must follow the same rules.
#include <algorithm>

#include "verbs/queue_pair.h"
#include "verbs/saved.h"
#include "verbs/send_wqe.h"

namespace pvrdma::verbs {
namespace {

using State = SendWorkState::State;

// SavedQp holds the state that these types are derived from. Their further members are saved one by one, so a
// new one fails here.
static_assert(sizeof(SendSide) == sizeof(SendState) + sizeof(guestmem::GuestRing) + sizeof(SendWindow));
static_assert(sizeof(ReceiveSide) ==
              sizeof(ReceiveState) + sizeof(std::optional<ReceiveQueue>) + sizeof(SharedReceiveQueue*));
static_assert(sizeof(SendWork) == sizeof(SendWorkState) + sizeof(abi::FastRegFields));

constexpr Duration kLeftMax{(1ll << 50) - 1};

Instant left_of(Instant when, Instant now) {
  if (when == Instant::never()) return when;
  return Instant{std::clamp(when - now, Duration(0), kLeftMax)};
}

Instant from_left(Instant left, Instant now) {
  return left == Instant::never() ? left : now + left.since_start;
}

// Checks a work request that has not failed. Returns why it is invalid, or null.
const char* check_good(const SavedWork& saved, const QueuePair& qp, const Rules& rules) {
  const SendWorkState& work = saved.state;
  if (!may_post(rules, qp, work.opcode)) return "a work request has an opcode that its QP may not post";
  std::uint64_t bytes = 0;
  for (const abi::Sge& sge : saved.sges) bytes += sge.length;
  const bool is_atomic = work.is_read_or_atomic() && work.opcode != abi::Opcode::kRdmaRead;
  const bool length_ok = bytes == work.length && (!is_atomic || bytes == kAtomicBytes);
  if (!length_ok || (work.is_local() && !saved.sges.empty()))
    return "a work request's length does not match its opcode and SGEs";
  switch (work.state) {
    case State::kQueued:
      return work.length == 0 || work.sent < work.length
                 ? nullptr
                 : "a work request is queued but has nothing left to send";
    case State::kSent:
      return work.started && work.sent == work.length
                 ? nullptr
                 : "a work request counts as sent, but was sent only in part";
    case State::kDone:
      return work.confirmed == work.length ? nullptr
                                           : "a work request counts as done, but was executed only in part";
    case State::kFailed:
      break;
  }
  return nullptr;
}

const char* check(const SavedWork& saved, const QueuePair& qp, const Rules& rules) {
  const SendWorkState& work = saved.state;
  if (work.length > kMessageBytesMax || saved.sges.size() > qp.identity.cap.max_send_sge)
    return "a work request is too long";
  if (work.state != State::kFailed) return check_good(saved, qp, rules);
  return work.status == abi::CompletionStatus::kSuccess ? "a failed work request has the status success"
                                                        : nullptr;
}

// Whether the work request behind `work` may have these numbers. A work request takes one message number and
// its packets' PSNs. A local one takes none, nor does one that failed before it could be sent.
bool may_follow(const SendWorkState& work, MessageNumber number, Psn psn, abi::Mtu mtu) {
  const bool takes_none = number == work.number && psn == work.psn;
  const bool takes_one = number == work.number.next() && psn == work.psn + packet_count(work.length, mtu);
  return (takes_none && (work.is_local() || work.state == State::kFailed)) || (takes_one && !work.is_local());
}

const char* check_window(const SavedQp& saved, const QueuePair& qp, const Rules& rules) {
  if (saved.works.size() > qp.send.window.slots()) return "more work requests than the QP has room for";
  if (qp.is_datagram() && !saved.works.empty()) return "a datagram QP has work requests in its window";
  const std::uint32_t before_sending = saved.send.sending - saved.window_head;
  if (before_sending > saved.works.size())
    return "the position of the work request to send next is out of range";
  for (std::size_t i = 0; i < saved.works.size(); ++i) {
    const SendWorkState& work = saved.works[i].state;
    if (const char* why = check(saved.works[i], qp, rules); why != nullptr) return why;
    if (i < before_sending && work.state == State::kQueued)
      return "a queued work request is before the one to send next";
    const bool is_newest = i + 1 == saved.works.size();
    const MessageNumber number = is_newest ? saved.send.next_number : saved.works[i + 1].state.number;
    const Psn psn = is_newest ? saved.send.next_psn : saved.works[i + 1].state.psn;
    if (!may_follow(work, number, psn, saved.attributes.path_mtu))
      return "the numbers of work requests are out of order";
  }
  return nullptr;
}

const char* check_attributes(const SavedQp& saved, const QueuePair& qp, const Limits& limits) {
  const QpAttributes& attributes = saved.attributes;
  if (attributes.max_rd_atomic > limits.max_rd_atomic || attributes.max_dest_rd_atomic > limits.max_rd_atomic)
    return "more reads and atomics at once than this adapter allows";
  if (qp.is_datagram()) return nullptr;
  if (attributes.state == abi::QpState::kSqe) return "a QP of this type cannot be in this state";
  const bool is_connected = may_respond(attributes.state);
  if (is_connected && (saved.local_gid.is_zero() || saved.local_roce == RoceVersion{}))
    return "a connected QP without an address";
  return nullptr;
}

}  // namespace

SavedQp QueuePair::save(Instant now) {
  // Not saved: the path, which is opened again; loans, which have ended; what Scheduler and MappedDoorbells
  // keep, which starts again. The loading engine charges the pages again.
  auto& [id, cq_of_sends, cq_of_receives, attr, gid, roce, path_, sends, receives, tx_count, tx_sum, rx_count,
         rx_sum, repeats, held_, loans_, context_link_, receiver_link_, ready_link_, waiting_link_,
         armed_for_, timer_place_] = *this;
  SavedQp saved{.identity = id,
                .send_cq = cq_of_sends.handle(),
                .recv_cq = cq_of_receives.handle(),
                .has_srq = receives.srq != nullptr,
                .srq = receives.srq != nullptr ? receives.srq->handle() : SrqHandle(),
                .charged_pages = held_.pages(),
                .attributes = attr,
                .local_gid = gid,
                .local_roce = roce,
                .send_ring = sends.ring.save(),
                .receive_ring = receives.queue ? receives.queue->save() : guestmem::SavedRing{},
                .send = sends,
                .window_head = sends.window.head(),
                .works = {},
                .receive = receives,
                .tx_messages = tx_count,
                .tx_bytes = tx_sum,
                .rx_messages = rx_count,
                .rx_bytes = rx_sum,
                .retransmits = repeats};
  for (Instant SendState::*when : {&SendState::ack_deadline, &SendState::rnr_until, &SendState::repeat_at})
    saved.send.*when = left_of(saved.send.*when, now);
  for (std::uint32_t at = sends.window.head(); at != sends.window.tail(); ++at) {
    const SendWork& work = sends.window.at(at);
    const std::span<const abi::Sge> sges = sends.window.sges(at);
    saved.works.push_back({.state = work, .fast_reg = work.fast_reg, .sges = {sges.begin(), sges.end()}});
  }
  return saved;
}

const char* QueuePair::restore(const SavedQp& saved, const Rules& rules, const Limits& limits, Instant now) {
  if (const char* why = check_attributes(saved, *this, limits); why != nullptr) return why;
  if (const char* why = check_window(saved, *this, rules); why != nullptr) return why;
  const std::uint32_t max_recv_sge =
      receive.srq != nullptr ? receive.srq->max_sge() : identity.cap.max_recv_sge;
  if (saved.receive.receive.sge_count > max_recv_sge) return "a receive has more SGEs than its queue allows";

  attributes = saved.attributes;
  local_gid = saved.local_gid;
  local_roce = saved.local_roce;
  static_cast<SendState&>(send) = saved.send;
  for (Instant SendState::*when : {&SendState::ack_deadline, &SendState::rnr_until, &SendState::repeat_at})
    send.*when = from_left(send.*when, now);
  send.reads_outstanding = send.bytes_in_flight = send.read_bytes_in_flight = 0;
  send.window.begin_at(saved.window_head);
  for (const SavedWork& one : saved.works) {
    SendWork& work = send.window.staging();
    static_cast<SendWorkState&>(work) = one.state;
    work.fast_reg = one.fast_reg;
    std::copy(one.sges.begin(), one.sges.end(), send.window.staging_sges());
    send.in_flight_with(work) += work.sent - work.confirmed;
    if (work.started && work.is_read_or_atomic() && work.state != State::kDone) ++send.reads_outstanding;
    send.window.push();
  }
  static_cast<ReceiveState&>(receive) = saved.receive;
  tx_messages = saved.tx_messages;
  tx_bytes = saved.tx_bytes;
  rx_messages = saved.rx_messages;
  rx_bytes = saved.rx_bytes;
  retransmits = saved.retransmits;
  return nullptr;
}

}  // namespace pvrdma::verbs
