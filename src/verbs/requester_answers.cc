// The second half of Requester: what answers, and time limits that pass without an answer, do to work
// requests.
#include <algorithm>

#include "verbs/requester.h"
#include "verbs/sge_list.h"

namespace pvrdma::verbs {
namespace {

using State = SendWork::State;

constexpr std::uint8_t kRnrRetryForEver = 7;

bool is_open(const SendWork& work) {
  return work.state == State::kQueued || work.state == State::kSent;
}

}  // namespace

void Requester::on_response(QueuePair& qp, const Response& response, Payload& payload, Instant now) {
  if (!may_request(qp.state())) return;
  SendWindow& window = qp.send.window;
  const std::uint32_t position = window.find(response.number);
  if (position == window.tail() ||
      !window.at(position).started) {  // the message is complete already, or was never sent
    ++services_.counters.duplicates;
    return;
  }

  // Any response means that the peer has executed all earlier messages. A read or an atomic is done only when
  // its result has arrived. If the answer was lost, the work request stays open, and when the timer expires
  // the request is sent again.
  if (position != window.head()) {
    for (std::uint32_t at = window.head(); at != position; ++at) {
      if (!window.at(at).is_read_or_atomic()) acknowledge(qp, at);
    }
    retire(qp);
    if (qp.state() == abi::QpState::kErr) return;
  }

  SendWork& work = window.at(position);
  switch (response.syndrome) {
    case Syndrome::kAck:
      on_ack(qp, position, response, payload);
      break;
    case Syndrome::kProgress:
      if (!is_open(work)) break;
      confirm(qp, work, response.offset);
      if (qp.send.resting() && position == qp.send.sending) on_receiver_ready(qp);
      break;
    case Syndrome::kRnrNak:
      on_receiver_not_ready(qp, position, response, now);
      break;
    case Syndrome::kNakSequence:
      on_gap(qp, position, response);
      break;
    case Syndrome::kNakInvalidRequest:
      on_refusal(qp, work, abi::CompletionStatus::kRemoteInvalidRequest);
      break;
    case Syndrome::kNakRemoteAccess:
      on_refusal(qp, work, abi::CompletionStatus::kRemoteAccess);
      break;
    case Syndrome::kNakRemoteOperational:
      on_refusal(qp, work, abi::CompletionStatus::kRemoteOperation);
      break;
  }
  retire(qp);
  watch(qp, now);
  report_drained(qp);
}

// The peer has executed the whole work request at `position`. This holds even if the work request was about
// to be sent again.
void Requester::acknowledge(QueuePair& qp, std::uint32_t position) {
  SendWork& work = qp.send.window.at(position);
  if (!is_open(work) || !work.started) return;
  services_.loans.give_back(qp, work, qp.send.window.sges(position));
  qp.send.finish(work);
  made_progress(qp);
  reopen_window(qp);
}

void Requester::on_ack(QueuePair& qp, std::uint32_t position, const Response& response, Payload& payload) {
  SendWork& work = qp.send.window.at(position);
  const bool was_fetched =
      payload.is_back() && services_.loans.end_fetching(qp, work, qp.send.window.sges(position));
  if (!is_open(work) || was_fetched != payload.is_back()) {
    ++services_.counters.duplicates;
  } else if (work.opcode == abi::Opcode::kRdmaRead) {
    on_read_data(qp, position, response, payload);
  } else if (work.is_read_or_atomic()) {
    on_atomic_result(qp, position, response);
  } else {
    acknowledge(qp, position);
  }
}

void Requester::on_read_data(QueuePair& qp, std::uint32_t position, const Response& response,
                             Payload& payload) {
  SendWork& work = qp.send.window.at(position);
  const bool is_back = payload.is_back();
  // The path is still fetching these bytes, but the read was repeated and this is the second answer. Stop the
  // fetches, so that none of their bytes arrives after it.
  if (!is_back && work.fetches != 0 && response.offset < work.fetched) services_.loans.stop(qp);
  // A repeated read may be answered in other pieces. One that begins within the bytes that have arrived and
  // ends beyond them is placed from its own beginning.
  const std::uint32_t reached = is_back ? work.confirmed : work.reached();
  const std::uint64_t end = std::uint64_t{response.offset} + response.bytes;
  const bool goes_on = response.op == RequestOp::kRead && response.offset <= reached &&
                       (end > reached || work.length == 0) && end <= work.length &&
                       response.bytes <= kPieceBytesMax && payload.bytes() == response.bytes;
  if (!goes_on) {
    ++services_.counters.duplicates;
    return;
  }
  guestmem::SpanList target;
  const KeyFault fault =
      resolve_sges(services_.mrs, qp.identity.pd, qp.send.window.sges(position), response.offset,
                   response.bytes, AccessNeed{.flag = abi::kAccessLocalWrite}, target);
  if (fault != KeyFault::kNone) return fail_locally(qp, work, abi::CompletionStatus::kLocalProtection);
  const Placed placed = payload.place(target);
  if (placed == Placed::kLost) return;
  if (!is_back) work.fetched = static_cast<std::uint32_t>(end);
  if (placed == Placed::kLater) {
    services_.loans.begin_fetching(qp, work, qp.send.window.sges(position));
    return made_progress(qp);
  }
  // The piece counts once all bytes before it have arrived.
  if (!is_back && work.fetches != 0) return made_progress(qp);
  const std::uint32_t confirmed = work.fetches != 0 ? static_cast<std::uint32_t>(end) : work.fetched;
  qp.send.move(work, std::max(work.sent, confirmed), confirmed);
  if (work.confirmed == work.length) {
    answered(qp, work);
  } else {
    made_progress(qp);
    services_.scheduler.make_ready(qp);  // to ask for the next bytes
  }
}

void Requester::on_atomic_result(QueuePair& qp, std::uint32_t position, const Response& response) {
  SendWork& work = qp.send.window.at(position);
  const RequestOp expected =
      work.opcode == abi::Opcode::kAtomicFetchAndAdd ? RequestOp::kFetchAdd : RequestOp::kCompareSwap;
  if (response.op != expected) return;
  guestmem::SpanList target;
  const KeyFault fault = resolve_sges(services_.mrs, qp.identity.pd, qp.send.window.sges(position), 0,
                                      work.length, AccessNeed{.flag = abi::kAccessLocalWrite}, target);
  if (fault != KeyFault::kNone) return fail_locally(qp, work, abi::CompletionStatus::kLocalProtection);
  std::uint64_t original = response.atomic_original;
  guestmem::SpanList source;
  static_cast<void>(source.append(reinterpret_cast<std::byte*>(&original), sizeof original));
  guestmem::copy(target, source, sizeof original);
  answered(qp, work);
}

// A read or an atomic has its result. Work requests that waited for it because of max_rd_atomic or a fence
// may go out.
void Requester::answered(QueuePair& qp, SendWork& work) {
  qp.send.finish(work);
  --qp.send.reads_outstanding;
  made_progress(qp);
  if (qp.send.sending != qp.send.window.tail()) services_.scheduler.make_ready(qp);
}

// The peer has no receive posted, or cannot reach its memory yet, and asks for a pause. It drops the messages
// that were in flight behind this one, so they are sent again too.
void Requester::on_receiver_not_ready(QueuePair& qp, std::uint32_t position, const Response& response,
                                      Instant now) {
  SendSide& send = qp.send;
  SendWork& work = send.window.at(position);
  if (send.resting() || !is_open(work)) return;
  ++services_.counters.rnr_naks_received;
  confirm(qp, work, response.offset);
  send.retries_left = qp.attributes.retry_cnt;  // the peer is alive
  if (qp.attributes.rnr_retry != kRnrRetryForEver) {
    if (send.rnr_retries_left == 0) return send.fail(work, abi::CompletionStatus::kRnrRetryExceeded);
    --send.rnr_retries_left;
  }
  rewind(qp, position);
  send.rnr_until = now + rnr_delay(response.rnr_timer);
  services_.scheduler.arm(qp, send.rnr_until);
}

// The peer, which asked for a pause before this message, has a receive now. So the pause has cost no retry.
// Over packets, the same answer is only a late acknowledgement.
void Requester::on_receiver_ready(QueuePair& qp) {
  SendSide& send = qp.send;
  if (path_of(services_, qp).carries_packets()) return;
  send.rnr_until = Instant::never();
  send.rnr_retries_left =
      static_cast<std::uint8_t>(std::min(send.rnr_retries_left + 1, int{qp.attributes.rnr_retry}));
  services_.scheduler.make_ready(qp);
}

// The peer did not get the message at `position` from the response's offset on.
void Requester::on_gap(QueuePair& qp, std::uint32_t position, const Response& response) {
  SendSide& send = qp.send;
  SendWork& work = send.window.at(position);
  const bool sent_past = SendWindow::before(position, send.sending) || work.sent > response.offset;
  if (!is_open(work) || !sent_past) return;  // it will be sent anyway
  confirm(qp, work, response.offset);
  if (take_retry(qp, position, send.retries_left)) rewind(qp, position);
}

void Requester::on_refusal(QueuePair& qp, SendWork& work, abi::CompletionStatus status) {
  if (!is_open(work)) return;
  ++services_.counters.remote_errors;
  qp.send.fail(work, status);
}

// The peer says that it has executed the first `offset` bytes of `work`.
void Requester::confirm(QueuePair& qp, SendWork& work, std::uint32_t offset) {
  if (work.is_read_or_atomic() || offset <= work.confirmed || offset >= work.length) return;
  qp.send.move(work, std::max(work.sent, offset), offset);
  made_progress(qp);
  reopen_window(qp);
}

void Requester::reopen_window(QueuePair& qp) {
  if (!qp.send.window_closed) return;
  if (std::max(qp.send.bytes_in_flight, qp.send.read_bytes_in_flight) > kBytesInFlightLow) return;
  qp.send.window_closed = false;
  services_.scheduler.make_ready(qp);
}

// The peer has made progress: all retries are available again, and the timers of unanswered requests start
// again.
void Requester::made_progress(QueuePair& qp) {
  qp.send.retries_left = qp.attributes.retry_cnt;
  qp.send.rnr_retries_left = qp.attributes.rnr_retry;
  qp.send.spared_until = Instant::never();
  qp.send.ack_deadline = Instant::never();
  qp.send.repeat_at = Instant::never();
  qp.send.repeats = false;
}

// Uses up one of the retries in `left`. Returns false if there was none; the work request at `position` has
// then failed.
bool Requester::take_retry(QueuePair& qp, std::uint32_t position, std::uint8_t& left) {
  if (left > 0) {
    --left;
    return true;
  }
  ++services_.counters.retry_exceeded;
  qp.send.fail(qp.send.window.at(position), abi::CompletionStatus::kRetryExceeded);
  return false;
}

// Lets the unconfirmed part of the work request at `position`, and everything after it, be sent again.
// Afterwards all open work requests from `sending` on are kQueued, and no earlier one is.
void Requester::rewind(QueuePair& qp, std::uint32_t position) {
  SendSide& send = qp.send;
  for (std::uint32_t at = position; at != send.window.tail() && !SendWindow::before(send.sending, at); ++at) {
    SendWork& work = send.window.at(at);
    const bool sent_some =
        work.state == State::kSent || (work.state == State::kQueued && work.sent > work.confirmed);
    if (!sent_some) continue;
    ++services_.counters.retransmits;
    ++qp.retransmits;
    work.state = State::kQueued;
    send.move(work, work.confirmed, work.confirmed);
  }
  if (SendWindow::before(position, send.sending)) send.sending = position;
  send.ack_deadline = Instant::never();
  services_.scheduler.make_ready(qp);
}

void Requester::on_path_restored(QueuePair& qp) {
  if (qp.loans.fetching != 0) services_.loans.stop(qp);  // answers that are being fetched may be lost as well
  send_again(qp);
}

void Requester::send_again(QueuePair& qp) {
  if (may_request(qp.state()) && !qp.send.window.empty()) rewind(qp, qp.send.window.head());
}

void Requester::repeat(QueuePair& qp) {
  SendSide& send = qp.send;
  if (send.resting()) return;  // after the pause, everything goes out again
  const Instant deadline = send.ack_deadline;
  const Psn reached = qp.next_psn();
  if (!send.repeats || distance(reached, send.repeats_to) > 0) send.repeats_to = reached;
  send_again(qp);
  send.repeats = true;
  send.ack_deadline = deadline;
}

bool Requester::is_spared(QueuePair& qp, Instant now) {
  if (!services_.wire.spares_retries(qp.connection().remote.gid, now)) return false;
  if (qp.send.spared_until == Instant::never()) qp.send.spared_until = now + kSparedAtMost;
  return now < qp.send.spared_until;
}

// No answer has come within the time limit, or the path has accepted nothing for that long.
void Requester::time_out(QueuePair& qp, Instant now) {
  SendSide& send = qp.send;
  ++services_.counters.timeouts;
  const std::uint32_t oldest = send.window.head();
  const bool is_answer_due = qp.is_answer_due();
  if (!is_spared(qp, now) &&
      !take_retry(qp, oldest, is_answer_due ? send.retries_left : send.path_retries_left)) {
    retire(qp);
  } else if (is_answer_due) {
    rewind(qp, oldest);
  } else {
    services_.scheduler.make_ready(qp);  // to try again: not every path reports when it has room
  }
}

void Requester::on_time(QueuePair& qp, Instant now) {
  SendSide& send = qp.send;
  if (send.resting() && send.rnr_until <= now) {
    send.rnr_until = Instant::never();
    services_.scheduler.make_ready(qp);
  }
  if (send.repeat_at <= now) {
    send.repeat_at = Instant::never();
    repeat(qp);
  }
  if (send.ack_deadline <= now) {
    send.ack_deadline = Instant::never();
    if (!send.window.empty()) time_out(qp, now);
  }
  const Instant next = std::min({send.rnr_until, send.ack_deadline, send.repeat_at});
  if (next != Instant::never()) services_.scheduler.arm(qp, next);
}

}  // namespace pvrdma::verbs
