#include "verbs/responder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "verbs/observed.h"

namespace pvrdma::verbs {
namespace {

// Whether no correct peer sends such a piece. Its sender is a different version of this software, or hostile.
bool is_malformed(const Request& request, std::uint64_t payload_bytes) {
  if (request.offset > request.message_bytes || request.bytes > request.message_bytes - request.offset)
    return true;
  if (request.bytes > kPieceBytesMax) return true;
  return !request.is_read_or_atomic() && payload_bytes != request.bytes;
}

std::uint32_t posted(ReceiveSide& receive) {
  return receive.srq != nullptr ? receive.srq->available() : receive.queue->available();
}

bool passes_progress_mark(std::uint32_t from, std::uint32_t to) {
  return from / kProgressBytes != to / kProgressBytes;
}

// The news of where a peer is come sooner.
constexpr Duration kNewsMax = std::chrono::seconds(5);

}  // namespace

// Returns false if the QP must not take the request. Reports the first one to a guest whose QP is in RTR.
bool Responder::establish(QueuePair& qp, const Request& request) {
  if (!may_respond(qp.state()) || !qp.is_between(request.from, request.to)) {
    ++services_.counters.dropped_unknown_qp;
    return false;
  }
  if (!qp.receive.established_reported) {
    qp.receive.established_reported = true;
    if (qp.state() == abi::QpState::kRtr) {
      services_.events.async_event(abi::EventType::kCommEst, qp.identity.handle.value);
    }
  }
  return true;
}

void Responder::on_request(QueuePair& qp, const Request& request, Payload& payload, Instant now) {
  if (is_malformed(request, payload.bytes())) {
    ++services_.counters.dropped_unknown_qp;
    return;
  }
  if (!establish(qp, request)) return;
  // Only one path at a time writes for a QP: bytes that another path is still placing must not arrive after
  // this message.
  if (payload.is_back()) {
    services_.loans.end_placing(qp);
  } else if (qp.loans.placing_count != 0) [[unlikely]] {
    services_.loans.stop(qp);
  }

  ReceiveSide& receive = qp.receive;
  if (receive.counts_parts && !request.by_packet && !take_count(receive, request, qp.attributes.path_mtu))
    return;
  const std::int32_t ahead = distance(request.number, receive.expected);
  if (ahead < 0) {
    on_duplicate(qp, request, now);
  } else if (ahead > 0 || request.offset > receive.under_way.executed) {
    if (receive.gap != Gap::kReported) report_gap(qp, request, now);
  } else if (request.offset < receive.under_way.executed && request.end() <= receive.under_way.executed &&
             request.op != RequestOp::kRead) {
    ++services_.counters.duplicates;  // the answer follows the message's last piece
    // The requester may be waiting for a progress report that was lost.
    if (passes_progress_mark(request.offset, request.end()))
      respond(qp, request, request.number, Syndrome::kProgress, now);
  } else {
    on_due(qp, request, payload, now);
  }
}

void Responder::on_ahead(QueuePair& qp, const Request& request, Payload& payload) {
  if (is_malformed(request, payload.bytes()) || !may_respond(qp.state()) ||
      !qp.is_between(request.from, request.to) || !Loans::may_follow(qp, request))
    return;
  executor_.place_ahead(qp, request, payload);
}

bool Responder::take_count(ReceiveSide& receive, const Request& request, abi::Mtu mtu) {
  const std::int32_t begin = distance(request.psn, receive.psn);
  const std::int32_t end = begin + static_cast<std::int32_t>(packet_count(request.message_bytes, mtu));
  if (begin > 0) return false;
  if (end < 0) return true;  // an older message, whose number is below `expected`
  if (begin == 0) {
    receive.expected = request.number;
  } else if (end == 0) {
    receive.expected = request.number.next();
  } else {
    if (request.op != RequestOp::kRead || receive.under_way.executed != 0) return false;
    receive.expected = request.number;
    receive.psn = request.psn;
    receive.under_way = {.executed = static_cast<std::uint32_t>(-begin) << abi::mtu_shift(mtu),
                         .op = request.op,
                         .message_bytes = request.message_bytes,
                         .rkey = request.rkey,
                         .remote_addr = request.remote_addr};
  }
  receive.counts_parts = false;
  return true;
}

void Responder::report_gap(QueuePair& qp, const Request& request, Instant now) {
  qp.receive.gap = Gap::kReported;
  ++services_.counters.sequence_naks_sent;
  respond(qp, request, qp.receive.expected, Syndrome::kNakSequence, now);
}

// A peer that has moved sends everything that is unanswered again from its new place, so a new place replaces
// what came from another one. What is old has come to nothing: the news of that place would be here.
void Responder::on_early(QueuePair& qp, const Request& request, PeerPlace from, Instant now) {
  if (!may_respond(qp.state()) || !qp.is_between(request.from, request.to)) return;
  EarlyRequests& early = qp.receive.early;
  const bool is_old = qp.receive.gap != Gap::kEarly && now > early.last_at + kNewsMax;
  if (early.from != from || is_old) early = {.from = from};
  early.last_at = now;
  qp.receive.gap = Gap::kEarly;
  auto& first = request.op == RequestOp::kRead || request.is_atomic() ? early.first_read : early.first_other;
  if (!first || distance(request.number, *first) < 0) first = request.number;
  if (!early.last || distance(request.number, *early.last) > 0) early.last = request.number;
}

// The requester may wait only for answers to what was executed before, so it would not know the message that
// is expected here. First comes the answer that costs it no retry.
void Responder::on_path_restored(QueuePair& qp, Instant now) {
  ReceiveSide& receive = qp.receive;
  const MessageNumber expected = receive.expected;
  const EarlyRequests early = receive.early;
  const bool will_hear = early.from && services_.wire.place_of(qp.remote().gid) == early.from;
  if (will_hear) receive.early = {};
  if (!will_hear && receive.gap != Gap::kEarly) return;
  if (receive.counts_parts || !may_respond(qp.state())) return;
  if (early.first_other && distance(*early.first_other, expected) < 0) {
    const Request last{.from = qp.remote(),
                       .to = qp.local(),
                       .number = MessageNumber(expected.value - 1),
                       .psn = Psn(receive.psn.value - 1)};
    respond(qp, last, last.number, Syndrome::kAck, now);
  }
  if (early.first_read && distance(*early.first_read, expected) < 0) {
    const Request again{.from = qp.remote(), .to = qp.local(), .number = *early.first_read};
    respond(qp, again, again.number, Syndrome::kNakSequence, now);
  }
  if (receive.gap != Gap::kEarly && distance(*early.last, expected) < 0) return;  // nothing is missing
  const Request missing{.from = qp.remote(), .to = qp.local(), .number = expected, .psn = receive.psn};
  report_gap(qp, missing, now);
}

void Responder::on_duplicate(QueuePair& qp, const Request& request, Instant now) {
  ++services_.counters.duplicates;
  const bool counts_parts = qp.receive.counts_parts;  // the requester's message count is then not known yet
  const MessageNumber done = counts_parts ? request.number : MessageNumber(qp.receive.expected.value - 1);
  if (request.op == RequestOp::kRead) {
    // Reading again does no harm. The memory may be gone by now, which is correct if the first answer has
    // arrived. So a failure is reported to the requester only, and this QP goes on.
    const Verdict verdict = serve_read(qp, request, now);
    if (verdict.syndrome != Syndrome::kAck) respond(qp, request, request.number, verdict.syndrome, now);
  } else if (request.is_atomic()) {
    const std::optional<std::uint64_t> original = qp.receive.replays.find(request.psn);
    if (original) respond(qp, request, request.number, Syndrome::kAck, now, *original);
  } else if (request.is_last()) {
    respond(qp, request, done, Syndrome::kAck, now);
  }
}

void Responder::on_due(QueuePair& qp, const Request& request, Payload& payload, Instant now) {
  if (!qp.receive.under_way.continues(request)) {
    respond(qp, request, request.number, Syndrome::kNakInvalidRequest, now);
    completions_.fail_qp(qp, "the pieces of a message contradict each other", abi::EventType::kQpReqErr);
    return;
  }
  const std::uint32_t executed_before = qp.receive.under_way.executed;
  const bool is_read = request.op == RequestOp::kRead;
  const Verdict verdict = is_read ? serve_read(qp, request, now) : executor_.execute(qp, request, payload);
  if (verdict.lost) return;

  // After an RNR NAK, the requests that are in flight behind this one arrive early. The requester expects
  // that, so they get no sequence NAK.
  const bool not_ready = verdict.syndrome == Syndrome::kRnrNak;
  qp.receive.gap = not_ready ? Gap::kReported : Gap::kNone;
  if (qp.receive.peer_pauses != not_ready) [[unlikely]]
    note_pause(qp, not_ready);

  const bool done = verdict.syndrome == Syndrome::kAck && request.is_last();
  if ((done && !is_read) || verdict.syndrome != Syndrome::kAck) {
    respond(qp, request, request.number, verdict.syndrome, now, verdict.atomic_original);
  } else if (!done && !is_read && passes_progress_mark(executed_before, qp.receive.under_way.executed)) {
    respond(qp, request, request.number, Syndrome::kProgress, now);
  }
  if (verdict.ends_qp()) completions_.fail_qp(qp, verdict.why, verdict.event);
}

void Responder::note_pause(QueuePair& qp, bool peer_pauses) {
  qp.receive.peer_pauses = peer_pauses;
  qp.receiver_link.unlink();
  if (peer_pauses && qp.receive.srq != nullptr) qp.receiver_link.link_before(qp.receive.srq->waiting);
}

void Responder::on_receives_posted(QueuePair& qp, Instant now) {
  if (posted(qp.receive) != 0) tell_ready(qp, now);
}

// A peer whose path carries packets knows no such message. Other peers take it for progress (Requester), and
// daemons before this one take no notice.
void Responder::tell_ready(QueuePair& qp, Instant now) {
  note_pause(qp, false);
  const ReceiveSide& receive = qp.receive;
  if (!may_respond(qp.state()) || receive.counts_parts || path_of(services_, qp).carries_packets()) return;
  const Request refused{
      .from = qp.remote(), .to = qp.local(), .number = receive.expected, .psn = receive.psn};
  respond(qp, refused, receive.expected, Syndrome::kProgress, now);
}

// A QP that was refused may have failed since: no peer is told, and no receive is counted for it.
void Responder::on_receives_posted(SharedReceiveQueue& srq, Instant now) {
  std::uint32_t receives = std::min(srq.available(), kToldAtOnce);
  for (std::uint32_t looks = 4 * kToldAtOnce; receives != 0 && looks != 0; --looks) {
    QueuePair* const qp = srq.waiting.next().owner();
    if (qp == nullptr) return;
    if (may_respond(qp->state())) --receives;
    tell_ready(*qp, now);
  }
}

// Answers a read with its data, which is also its acknowledgement.
Verdict Responder::serve_read(QueuePair& qp, const Request& request, Instant now) {
  guestmem::SpanList source;
  const Verdict verdict = executor_.open_read(qp, request, source);
  if (verdict.syndrome != Syndrome::kAck) return verdict;
  const bool goes_on = request.is_last() || request.end() > qp.receive.under_way.executed;
  if (request.number == qp.receive.expected && goes_on) executor_.advance(qp, request);
  const Response response{.from = qp.local(),
                          .to = qp.remote(),
                          .number = request.number,
                          .syndrome = Syndrome::kAck,
                          .op = RequestOp::kRead,
                          .offset = request.offset,
                          .bytes = request.bytes};
  send(qp, request, response, source, now);
  return {};
}

bool Responder::accept_read(QueuePair& qp, const Request& request, Instant now) {
  if (!establish(qp, request)) return false;
  guestmem::SpanList nothing;
  Request whole = request;
  whole.bytes = 0;
  const Verdict verdict = executor_.open_read(qp, whole, nothing);
  if (verdict.syndrome != Syndrome::kAck) {
    respond(qp, request, request.number, verdict.syndrome, now);
    completions_.fail_qp(qp, verdict.why, verdict.event);
    return false;
  }
  whole.bytes = whole.message_bytes;
  executor_.advance(qp, whole);
  qp.receive.counts_parts = true;
  return true;
}

bool Responder::open_read(QueuePair& qp, const Request& request, ReadAnswer answer,
                          guestmem::SpanList& source) {
  if (!may_respond(qp.state())) return false;
  const Verdict verdict = executor_.open_read(qp, request, source);
  if (verdict.syndrome == Syndrome::kAck) return true;
  if (answer == ReadAnswer::kFirst) completions_.fail_qp(qp, verdict.why, verdict.event);
  return false;
}

void Responder::refuse(QueuePair& qp, const Request& request, std::string_view why, Instant now) {
  if (!establish(qp, request)) return;
  respond(qp, request, request.number, Syndrome::kNakInvalidRequest, now);
  completions_.fail_qp(qp, why, abi::EventType::kQpReqErr);
}

void Responder::respond(QueuePair& qp, const Request& request, MessageNumber number, Syndrome syndrome,
                        Instant now, std::uint64_t atomic_original) {
  const bool names_progress =
      syndrome == Syndrome::kNakSequence || syndrome == Syndrome::kRnrNak || syndrome == Syndrome::kProgress;
  const std::uint32_t progress = number == qp.receive.expected ? qp.receive.under_way.executed : 0;
  const Response response{.from = qp.local(),
                          .to = qp.remote(),
                          .number = number,
                          .syndrome = syndrome,
                          .op = request.op,
                          .rnr_timer = qp.attributes.min_rnr_timer,
                          .offset = names_progress ? progress : request.offset,
                          .bytes = 0,
                          .atomic_original = atomic_original};
  send(qp, request, response, guestmem::SpanList{}, now);
}

void Responder::send(QueuePair& qp, const Request& request, const Response& response,
                     const guestmem::SpanList& payload, Instant now) {
  if (MessageObserver* observer = services_.wire.observer(); observer != nullptr) [[unlikely]] {
    observer->on_response(Direction::kOutbound, response, answered_by_us(qp, request, response), &payload,
                          qp.attributes.path_mtu, now);
  }
  Path& path = services_.wire.answer_path(path_of(services_, qp));
  if (response.bytes >= path.lends_from() && Loans::may_lend_answer(qp) &&
      path.lend_response(response, request.rkey, payload, now)) {
    services_.loans.lend_answer(qp, request.rkey);
  } else {
    path.send_response(response, payload, now);
  }
}

}  // namespace pvrdma::verbs
