// Requester, second half: what answers, and their absence, do to the work requests that wait for them.
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
      !window.at(position).started) {  // of a message complete long ago, or never sent
    ++services_.counters.duplicates;
    return;
  }

  // Whatever it says, everything before this message was executed. A read or atomic is done only when its
  // result is here: one whose answer was lost stays open, and the timer asks again.
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
      if (is_open(work)) confirm(qp, work, response.offset);
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

// The peer has executed all of the work request at `position`, which counts also when it is about to be sent
// again.
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
  // What is being fetched was asked for again, and this has come of it: no byte lands behind it.
  if (!is_back && work.fetches != 0 && response.offset < work.fetched) services_.loans.stop(qp);
  // What begins among the bytes that are here already and brings more (asked for twice, it came in other
  // pieces) is placed from its own beginning.
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
  if (!is_back && work.fetches != 0) return made_progress(qp);  // it counts when what is before it is here
  const std::uint32_t confirmed = work.fetches != 0 ? static_cast<std::uint32_t>(end) : work.fetched;
  qp.send.move(work, std::max(work.sent, confirmed), confirmed);
  if (work.confirmed == work.length) {
    answered(qp, work);
  } else {
    made_progress(qp);
    services_.scheduler.make_ready(qp);  // to ask for more
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

// A read or atomic has its result: what waited behind it for max_rd_atomic or a fence may go.
void Requester::answered(QueuePair& qp, SendWork& work) {
  qp.send.finish(work);
  --qp.send.reads_outstanding;
  made_progress(qp);
  if (qp.send.sending != qp.send.window.tail()) services_.scheduler.make_ready(qp);
}

// A pause ordered by the peer. What was already under way behind this message is dropped there: it is sent
// again too.
void Requester::on_receiver_not_ready(QueuePair& qp, std::uint32_t position, const Response& response,
                                      Instant now) {
  SendSide& send = qp.send;
  SendWork& work = send.window.at(position);
  if (send.resting() || work.is_read_or_atomic() || !is_open(work)) return;
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

// The peer misses something from (position, offset) on.
void Requester::on_gap(QueuePair& qp, std::uint32_t position, const Response& response) {
  SendSide& send = qp.send;
  SendWork& work = send.window.at(position);
  const bool sent_past = SendWindow::before(position, send.sending) || work.sent > response.offset;
  if (!is_open(work) || !sent_past) return;  // it is to be sent anyway
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

// The peer got further: patience begins anew, and so does the time of what is still unanswered.
void Requester::made_progress(QueuePair& qp) {
  qp.send.retries_left = qp.attributes.retry_cnt;
  qp.send.rnr_retries_left = qp.attributes.rnr_retry;
  qp.send.spared_until = Instant::never();
  qp.send.ack_deadline = Instant::never();
  qp.send.repeat_at = Instant::never();
  qp.send.repeats = false;
}

// False: there was none left, and the work request at `position` has failed.
bool Requester::take_retry(QueuePair& qp, std::uint32_t position, std::uint8_t& left) {
  if (left > 0) {
    --left;
    return true;
  }
  ++services_.counters.retry_exceeded;
  qp.send.fail(qp.send.window.at(position), abi::CompletionStatus::kRetryExceeded);
  return false;
}

// Sends what is not confirmed of the work request at `position` again, and everything after it. Afterwards
// all open work from `sending` on is kQueued, and none before it is.
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
  if (qp.loans.fetching != 0) services_.loans.stop(qp);  // what is fetched may be lost as well
  send_again(qp);
}

void Requester::send_again(QueuePair& qp) {
  if (may_request(qp.state()) && !qp.send.window.empty()) rewind(qp, qp.send.window.head());
}

void Requester::repeat(QueuePair& qp) {
  SendSide& send = qp.send;
  if (send.resting()) return;  // it all goes out again behind the pause
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

// An answer has not come, or the path has taken nothing for as long.
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
    services_.scheduler.make_ready(qp);  // to try again: not every path says when it is ready
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
