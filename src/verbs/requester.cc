#include "verbs/requester.h"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "verbs/sge_list.h"

namespace pvrdma::verbs {
namespace {

using State = SendWork::State;

// The most read data that one work request asks for before it has arrived: bounds what a transport has to
// carry at once.
constexpr std::uint32_t kReadAheadBytes = 4 * kPieceBytesMax;

// A full window always opens again: it contains the end of a message, which the peer acknowledges, or a
// progress mark, which the peer reports.
static_assert(Requester::kBytesInFlightMax >= 2 * kProgressBytes + kPieceBytesMax);
static_assert(Requester::kBytesInFlightLow >= kProgressBytes,
              "bytes that the peer has executed and not yet reported stay below it");

std::uint32_t next_piece_bytes(const SendWork& work) {
  return std::min(work.length - work.sent, kPieceBytesMax);
}

Extra request_extra(abi::Opcode opcode) {
  switch (opcode) {
    case abi::Opcode::kRdmaWriteWithImm:
    case abi::Opcode::kSendWithImm:
      return Extra::kImmediate;
    case abi::Opcode::kSendWithInv:
      return Extra::kInvalidate;
    default:
      return Extra::kNone;
  }
}

Request make_request(const QueuePair& qp, const SendWork& work, std::uint32_t bytes) {
  Request request;
  request.from = qp.local();
  request.to = qp.remote();
  request.number = work.number;
  request.psn = work.psn;
  request.op = request_op(work.opcode);
  request.extra = request_extra(work.opcode);
  request.solicited = (work.send_flags & abi::kSendSolicited) != 0;
  request.extra_value = work.extra_value;
  request.message_bytes = work.length;
  request.offset = work.sent;
  request.bytes = bytes;
  request.remote_addr = work.remote_addr;
  request.rkey = work.rkey;
  request.compare_add = work.compare_add;
  request.swap = work.swap;
  return request;
}

bool may_send(const QueuePair& qp) {
  return may_request(qp.state()) && !qp.send.resting();
}

std::string_view describe(abi::CompletionStatus status) {
  switch (status) {
    case abi::CompletionStatus::kLocalLength:
      return "a work request was too long for its buffers or the port";
    case abi::CompletionStatus::kLocalQpOperation:
      return "a work request is not allowed on this QP";
    case abi::CompletionStatus::kLocalProtection:
      return "a work request named memory that it may not use";
    case abi::CompletionStatus::kRemoteInvalidRequest:
      return "the peer refused a request as invalid";
    case abi::CompletionStatus::kRemoteAccess:
      return "the peer refused access to its memory";
    case abi::CompletionStatus::kRemoteOperation:
      return "the peer could not complete a request";
    case abi::CompletionStatus::kRetryExceeded:
      return "the peer did not answer for as long as timeout and retry_cnt allow";
    case abi::CompletionStatus::kRnrRetryExceeded:
      return "the peer had no receive posted for as long as rnr_retry allows";
    default:
      return "a work request failed";
  }
}

// Why a work request got no answer, as far as this host knows. Empty: the peer may have got it and not have
// answered, or there is no memory to say it.
std::string why_unanswered(const Services& services, QueuePair& qp, const SendWork& work) {
  try {
    const Path& path = path_of(services, qp);
    const std::string trouble = path.trouble();
    const bool was_sent = work.started && path.leads_somewhere();
    if (was_sent && trouble.empty()) return {};
    std::string why(was_sent ? describe(work.status)
                             : "nothing could be sent for as long as timeout and retry_cnt allow");
    if (!trouble.empty()) why.append(": ").append(trouble);
    return why;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace

bool Requester::run(QueuePair& qp, Instant now) {
  const std::uint32_t bytes_granted =
      std::min(services_.share.bytes_left(), qp.send.waits_for_path ? kPieceBytesMax : ~0U);
  std::uint32_t wqes = kWqesPerTurn;
  std::int64_t bytes = bytes_granted;
  bool more = false;
  bool sent_some = false;
  while (may_send(qp)) {
    if (qp.send.sending == qp.send.window.tail()) {
      if (qp.state() != abi::QpState::kRts || qp.send.window.full() || qp.send.stopped) break;
      if (wqes == 0 || bytes <= 0) {
        more = true;
        break;
      }
      --wqes;
      const Fetched fetched = fetch(qp);
      if (fetched == Fetched::kEmpty) break;
      if (fetched == Fetched::kBroken) {
        services_.share.spend(kWqesPerTurn - wqes, bytes_granted - bytes);
        completions_.ring_broken(qp, "its send queue has an invalid index, or a page of it is gone");
        return false;
      }
    }
    if (bytes <= 0) {
      more = true;
      break;
    }
    const Step step = send_next(qp, bytes, now);
    if (step == Step::kNoRoom) {
      // A QP that has sent something in this turn does not wait yet, but gets another turn. QPs that are
      // refused room before that turn wait ahead of it.
      if (sent_some) {
        more = true;
      } else {
        services_.scheduler.wait_for_path(qp);
      }
    }
    if (step != Step::kSent) break;
    sent_some = true;
  }
  services_.share.spend(kWqesPerTurn - wqes, bytes_granted - bytes);
  watch(qp, now);
  report_drained(qp);
  return more;
}

Fetched Requester::fetch(QueuePair& qp) {
  SendWindow& window = qp.send.window;
  SendWork& work = window.staging();
  const Fetched fetched = fetch_send_wqe(services_, qp, work, window.staging_sges());
  if (fetched != Fetched::kOne) return fetched;
  work.number = qp.send.next_number;
  work.psn = qp.send.next_psn;
  if (work.state == State::kFailed) {
    ++services_.counters.local_errors;
  } else if (!work.is_local()) {
    qp.send.next_number = work.number.next();
    qp.send.next_psn = work.psn + packet_count(work.length, qp.attributes.path_mtu);
  }
  window.push();
  return fetched;
}

Requester::Step Requester::send_next(QueuePair& qp, std::int64_t& bytes_left, Instant now) {
  SendSide& send = qp.send;
  const std::uint32_t position = send.sending;
  SendWork& work = send.window.at(position);

  if (work.state == State::kFailed) {  // waits for the work requests before it, and no later one passes it
    retire(qp);
    return Step::kBlocked;
  }
  if (work.state != State::kQueued) {  // answered before rewind() moved `sending` back
    ++send.sending;
    return Step::kSent;
  }
  if (!window_has_room(qp, work) || (!work.started && !may_begin(qp, work))) return Step::kBlocked;
  if (work.is_local()) {
    // Earlier work requests may have to be sent again, with the keys that this one may change.
    if (position != send.window.head()) return Step::kBlocked;
    work.started = true;
    execute_local(qp, work);
    return Step::kSent;
  }
  if (!work.started && work.is_read_or_atomic() && qp.attributes.max_rd_atomic == 0) {
    fail_locally(qp, work, abi::CompletionStatus::kLocalQpOperation);
    return Step::kSent;  // the next send_next() retires it
  }
  return send_piece(qp, work, bytes_left, now);
}

bool Requester::window_has_room(QueuePair& qp, const SendWork& work) const {
  SendSide& send = qp.send;
  if (work.is_local()) return true;
  if (work.opcode == abi::Opcode::kRdmaRead && work.sent - work.confirmed >= kReadAheadBytes) return false;
  if (send.in_flight_with(work) + next_piece_bytes(work) <= kBytesInFlightMax) return true;
  send.window_closed = true;
  return false;
}

bool Requester::may_begin(const QueuePair& qp, const SendWork& work) const {
  const SendSide& send = qp.send;
  if (send.stopped) return false;
  if ((work.send_flags & abi::kSendFence) != 0 && send.reads_outstanding != 0) return false;
  const std::uint32_t reads_max = qp.attributes.max_rd_atomic;
  return !work.is_read_or_atomic() || reads_max == 0 || send.reads_outstanding < reads_max;
}

// Sends the next piece of `work`, the work request at `sending`.
Requester::Step Requester::send_piece(QueuePair& qp, SendWork& work, std::int64_t& bytes_left, Instant now) {
  SendSide& send = qp.send;
  const std::uint32_t position = send.sending;
  Path& path = path_of(services_, qp);
  if (path.carries_packets()) {
    // Packets are sent whole. If an earlier path has cut the message within a packet, go back to where the
    // packet begins.
    const std::uint32_t packet = work.sent & ~(abi::mtu_bytes(qp.attributes.path_mtu) - 1);
    if (packet != work.sent) send.move(work, packet, std::min(packet, work.confirmed));
  }
  std::uint32_t bytes = next_piece_bytes(work);
  const bool has_payload = !work.is_read_or_atomic();
  const std::uint32_t wanted = std::max(bytes, 1U);
  const std::uint32_t room = has_payload ? path.room(wanted, now) : path.room_to_ask(wanted, now);
  if (room == 0) {
    send.waits_for_path = true;
    return Step::kNoRoom;
  }
  bytes = std::min(bytes, room);

  guestmem::SpanList payload;
  if (has_payload) {
    const KeyFault fault = resolve_sges(services_.mrs, qp.identity.pd, send.window.sges(send.sending),
                                        work.sent, bytes, AccessNeed{}, payload);
    if (fault != KeyFault::kNone) {
      fail_locally(qp, work, abi::CompletionStatus::kLocalProtection);
      return Step::kSent;
    }
  }
  if (!work.started) {
    work.started = true;
    if (work.is_read_or_atomic()) ++send.reads_outstanding;
  }

  // Each new piece of the oldest message restarts the ack timer, because the peer answers when it has the
  // whole message. A read's pieces do so only if they had to wait for the path. Repeated pieces never do.
  const bool is_read = work.opcode == abi::Opcode::kRdmaRead;
  const bool is_new = !send.repeats || distance(qp.next_psn(), send.repeats_to) >= 0;
  if (is_new) {
    send.repeats = false;
    if ((!is_read || send.waits_for_path) && send.sending == send.window.head())
      send.ack_deadline = Instant::never();
    if (send.waits_for_path) send.path_retries_left = qp.attributes.retry_cnt;
  }
  send.waits_for_path = false;
  const Request request = make_request(qp, work, bytes);
  send.move(work, work.sent + bytes, work.confirmed);
  if (work.sent == work.length) {
    work.state = State::kSent;
    ++send.sending;
  }
  bytes_left -= bytes;
  if (MessageObserver* observer = services_.wire.observer(); observer != nullptr) [[unlikely]] {
    observer->on_request(Direction::kOutbound, request, &payload, qp.attributes.path_mtu, now);
  }
  if (bytes >= path.lends_from() && has_payload && path.lend_request(request, payload, now)) {
    services_.loans.lend(qp, work, send.window.sges(position));
  } else {
    // The peer may answer before this returns. Then `work` may be retired.
    path.send_request(request, payload, now);
  }
  return Step::kSent;
}

void Requester::execute_local(QueuePair& qp, SendWork& work) {
  bool done = false;
  if (work.opcode == abi::Opcode::kFastRegMr) {
    const abi::FastRegFields& fields = work.fast_reg;
    done = services_.mrs.fast_register({.key = fields.rkey,
                                        .pd = qp.identity.pd,
                                        .iova_start = fields.iova_start,
                                        .page_directory = fields.pl_pdir_dma,
                                        .page_shift = fields.page_shift,
                                        .page_count = fields.page_list_len,
                                        .length = fields.length,
                                        .access_flags = fields.access_flags});
  } else {
    services_.loans.stop_key(work.extra_value);
    done = services_.mrs.invalidate(work.extra_value, qp.identity.pd);
  }
  if (!done) {
    fail_locally(qp, work, abi::CompletionStatus::kLocalQpOperation);
    return;
  }
  qp.send.finish(work);
  ++qp.send.sending;
  retire(qp);
}

void Requester::fail_locally(QueuePair& qp, SendWork& work, abi::CompletionStatus status) {
  ++services_.counters.local_errors;
  qp.send.fail(work, status);
}

// Completes the oldest work requests in order, as far as they are finished.
void Requester::retire(QueuePair& qp) {
  SendWindow& window = qp.send.window;
  const bool was_full = window.full();
  while (!window.empty()) {
    SendWork& work = window.at(window.head());
    if (work.state == State::kDone) {
      ++services_.counters.tx_messages;
      services_.counters.tx_bytes += work.length;
      ++qp.tx_messages;
      qp.tx_bytes += work.length;
      const bool pushed = completions_.complete_send(qp, work, abi::CompletionStatus::kSuccess);
      if (!pushed) return;
      qp.send.pop();
      continue;
    }
    if (work.state == State::kFailed) {
      const bool unanswered = work.status == abi::CompletionStatus::kRetryExceeded;
      const std::string why = unanswered ? why_unanswered(services_, qp, work) : std::string();
      services_.loans.stop(qp);  // before the CQE tells the guest that it may reuse its memory
      completions_.complete_send(qp, work, work.status);
      qp.send.pop();
      completions_.fail_qp(qp, why.empty() ? describe(work.status) : why);
    }
    break;
  }
  const bool local_next = !window.empty() && window.at(window.head()).is_local();
  if ((was_full && !window.full()) || local_next) services_.scheduler.make_ready(qp);
}

// Starts the ack timer, unless it runs, if an answer is due or the path had no room.
void Requester::watch(QueuePair& qp, Instant now) {
  SendSide& send = qp.send;
  watch_path(qp, now);
  if (send.window.empty() || send.ack_deadline != Instant::never()) return;
  if (qp.attributes.timeout == 0 || !may_send(qp)) return;
  if (!send.waits_for_path && !qp.is_answer_due()) return;
  send.ack_deadline = now + ack_timeout(qp.attributes.timeout);
  services_.scheduler.arm(qp, send.ack_deadline);
}

// Starts the timer for the path's own time limit for an answer. Most paths have none; only the guest's
// applies.
void Requester::watch_path(QueuePair& qp, Instant now) {
  SendSide& send = qp.send;
  if (send.repeat_at != Instant::never() || send.window.empty() || !qp.path.is_open() || !may_send(qp))
    return;
  const Duration after = qp.path->repeat_after();
  if (after == Duration::max() || qp.oldest_psn() == qp.next_psn()) return;
  send.repeat_at = now + after;
  services_.scheduler.arm(qp, send.repeat_at);
}

void Requester::report_drained(QueuePair& qp) {
  SendSide& send = qp.send;
  if (qp.state() != abi::QpState::kSqd || !send.window.empty() || send.drained_reported) return;
  send.drained_reported = true;
  if (qp.attributes.sqd_async_notify) {
    services_.events.async_event(abi::EventType::kSqDrained, qp.identity.handle.value);
  }
}

}  // namespace pvrdma::verbs
