#include "verbs/responder.h"

#include <algorithm>
#include <atomic>

#include "verbs/sge_list.h"

namespace pvrdma::verbs {
namespace {

constexpr std::uint32_t kAtomicBytes = 8;

bool may_respond(abi::QpState state) {
  return state == abi::QpState::kRtr || state == abi::QpState::kRts || state == abi::QpState::kSqd;
}

bool consumes_receive(const Request& request) {
  return request.op == RequestOp::kSend ||
         (request.op == RequestOp::kWrite && request.extra == Extra::kImmediate);
}

std::uint32_t needed_access(RequestOp op) {
  switch (op) {
    case RequestOp::kSend:
      return abi::kAccessLocalWrite;
    case RequestOp::kWrite:
      return abi::kAccessRemoteWrite;
    case RequestOp::kRead:
      return abi::kAccessRemoteRead;
    case RequestOp::kCompareSwap:
    case RequestOp::kFetchAdd:
      return abi::kAccessRemoteAtomic;
  }
  return 0;
}

// A piece that cannot be: its sender is another version of us, or hostile.
bool is_malformed(const Request& request, std::uint64_t payload_bytes) {
  if (request.offset > request.message_bytes || request.bytes > request.message_bytes - request.offset)
    return true;
  if (request.bytes > kPieceBytesMax) return true;
  return !request.is_read_or_atomic() && payload_bytes != request.bytes;
}

bool passes_progress_mark(std::uint32_t from, std::uint32_t to) {
  return from / kProgressBytes != to / kProgressBytes;
}

}  // namespace

void Responder::on_request(QueuePair& qp, const Request& request, Payload& payload, Instant now) {
  if (!may_respond(qp.state()) || request.from != qp.remote() || request.to != qp.local() ||
      is_malformed(request, payload.bytes())) {
    ++services_.counters.dropped_unknown_qp;
    return;
  }
  if (!qp.receive.established_reported) {
    qp.receive.established_reported = true;
    if (qp.state() == abi::QpState::kRtr) {
      services_.events.async_event(abi::EventType::kCommEst, qp.identity.handle.value);
    }
  }

  ReceiveSide& receive = qp.receive;
  const std::int32_t ahead = distance(request.number, receive.expected);
  if (ahead < 0) {
    on_duplicate(qp, request, now);
  } else if (ahead > 0 || request.offset > receive.progress) {
    if (receive.gap_reported) return;
    receive.gap_reported = true;
    ++services_.counters.sequence_naks_sent;
    respond(qp, request, receive.expected, Syndrome::kNakSequence, now);
  } else if (request.offset < receive.progress && request.end() <= receive.progress &&
             request.op != RequestOp::kRead) {
    ++services_.counters.duplicates;  // the answer comes with the message's last piece
    // The requester may be waiting for a report that was lost.
    if (passes_progress_mark(request.offset, request.end()))
      respond(qp, request, request.number, Syndrome::kProgress, now);
  } else {
    execute(qp, request, payload, now);
  }
}

void Responder::on_duplicate(QueuePair& qp, const Request& request, Instant now) {
  ++services_.counters.duplicates;
  const MessageNumber done(qp.receive.expected.value - 1);
  if (request.op == RequestOp::kRead) {
    // Reading again does no harm. The memory may be gone since, rightly so if the first answer has arrived:
    // the requester knows, and this QP goes on.
    const Verdict verdict = serve_read(qp, request, now);
    if (verdict.syndrome != Syndrome::kAck) respond(qp, request, request.number, verdict.syndrome, now);
  } else if (request.is_atomic()) {
    const auto replay =
        std::find_if(qp.receive.replays.begin(), qp.receive.replays.end(),
                     [&](const AtomicReplay& r) { return r.valid && r.number == request.number; });
    if (replay != qp.receive.replays.end()) {
      respond(qp, request, request.number, Syndrome::kAck, now, replay->original);
    }
  } else if (request.is_last()) {
    respond(qp, request, done, Syndrome::kAck, now);
  }
}

void Responder::execute(QueuePair& qp, const Request& request, Payload& payload, Instant now) {
  if (qp.receive.progress != 0 && qp.receive.progress_op != request.op) {
    respond(qp, request, request.number, Syndrome::kNakInvalidRequest, now);
    completions_.fail_qp(qp, "a message changed its kind half way", abi::EventType::kQpReqErr);
    return;
  }
  const std::uint32_t progress_before = qp.receive.progress;
  Verdict verdict;
  std::uint64_t original = 0;
  switch (request.op) {
    case RequestOp::kSend:
      verdict = execute_send(qp, request, payload);
      break;
    case RequestOp::kWrite:
      verdict = execute_write(qp, request, payload);
      break;
    case RequestOp::kRead:
      verdict = serve_read(qp, request, now);
      break;
    case RequestOp::kCompareSwap:
    case RequestOp::kFetchAdd:
      verdict = execute_atomic(qp, request, original);
      break;
  }

  if (verdict.lost) return;

  // What is already under way behind a message that found no receive is early, but known to be: no sequence
  // NAK.
  qp.receive.gap_reported = verdict.syndrome == Syndrome::kRnrNak;

  const bool done = verdict.syndrome == Syndrome::kAck && request.is_last();
  const bool answers = (done && request.op != RequestOp::kRead) || verdict.syndrome != Syndrome::kAck;
  if (answers) {
    respond(qp, request, request.number, verdict.syndrome, now, original);
  } else if (!done && request.op != RequestOp::kRead &&
             passes_progress_mark(progress_before, qp.receive.progress)) {
    respond(qp, request, request.number, Syndrome::kProgress, now);
  }
  if (verdict.ends_qp()) completions_.fail_qp(qp, verdict.why, verdict.event);
}

Responder::Verdict Responder::take_receive(QueuePair& qp) {
  ReceiveSide& receive = qp.receive;
  if (receive.holds_receive) return {};
  const Taken taken = receive.take();
  switch (taken) {
    case Taken::kOne:
      break;
    case Taken::kEmpty:
      ++services_.counters.rnr_naks_sent;
      return {.syndrome = Syndrome::kRnrNak};
    case Taken::kBroken:
      ++services_.counters.invalid_ring_indices;
      return {.syndrome = Syndrome::kNakRemoteOperational,
              .why = "its receive queue has an impossible index or lost a page",
              .event = abi::EventType::kQpFatal};
  }
  receive.holds_receive = true;
  if (!receive.receive.bad) return {};
  receive.holds_receive = false;
  ++services_.counters.local_errors;
  completions_.complete_receive(
      qp, {.wr_id = receive.receive.wr_id, .status = abi::CompletionStatus::kLocalQpOperation});
  return {.syndrome = Syndrome::kNakRemoteOperational,
          .why = "a receive had more SGEs than its queue allows"};
}

Responder::Verdict Responder::execute_send(QueuePair& qp, const Request& request, Payload& payload) {
  ReceiveSide& receive = qp.receive;
  if (const Verdict verdict = take_receive(qp); verdict.syndrome != Syndrome::kAck) return verdict;

  const auto give_up = [&](abi::CompletionStatus status, Syndrome syndrome, std::string_view why) -> Verdict {
    receive.holds_receive = false;
    ++services_.counters.local_errors;
    completions_.complete_receive(qp, {.wr_id = receive.receive.wr_id, .status = status});
    return {.syndrome = syndrome, .why = why};
  };
  if (request.message_bytes > receive.receive.total_bytes) {
    return give_up(abi::CompletionStatus::kLocalLength, Syndrome::kNakInvalidRequest,
                   "a message was longer than the receive posted for it");
  }
  guestmem::SpanList target;
  const KeyFault fault =
      resolve_sges(services_.mrs, receive.srq != nullptr ? receive.srq->pd() : qp.identity.pd,
                   {receive.receive.sges.data(), receive.receive.sge_count}, request.offset, request.bytes,
                   {.flag = abi::kAccessLocalWrite}, target);
  if (fault != KeyFault::kNone) {
    return give_up(abi::CompletionStatus::kLocalProtection, Syndrome::kNakRemoteOperational,
                   "a receive named memory it may not use");
  }
  if (!payload.copy_to(target)) return {.lost = true};
  if (request.is_last() && request.extra == Extra::kInvalidate &&
      !services_.mrs.invalidate(request.extra_value, qp.identity.pd)) {
    ++services_.counters.access_errors;
    return give_up(abi::CompletionStatus::kLocalQpOperation, Syndrome::kNakRemoteAccess,
                   "the peer asked to invalidate a key that is not valid here");
  }
  advance(qp, request);
  return request.is_last() ? deliver(qp, request) : Verdict{};
}

Responder::Verdict Responder::execute_write(QueuePair& qp, const Request& request, Payload& payload) {
  guestmem::SpanList target;
  if (request.message_bytes != 0) {
    const AccessNeed need{.flag = abi::kAccessRemoteWrite, .remote = true};
    const bool allowed =
        (qp.attributes.access_flags & needed_access(request.op)) != 0 &&
        services_.mrs.check(request.rkey, qp.identity.pd, request.remote_addr, request.message_bytes, need) ==
            KeyFault::kNone &&
        services_.mrs.resolve(request.rkey, qp.identity.pd, request.remote_addr + request.offset,
                              request.bytes, need, target) == KeyFault::kNone;
    if (!allowed) {
      ++services_.counters.access_errors;
      return {.syndrome = Syndrome::kNakRemoteAccess,
              .why = "the peer wrote where it may not",
              .event = abi::EventType::kQpAccessErr};
    }
  }
  if (request.is_last() && consumes_receive(request)) {
    if (const Verdict verdict = take_receive(qp); verdict.syndrome != Syndrome::kAck) return verdict;
  }
  if (!payload.copy_to(target)) return {.lost = true};
  advance(qp, request);
  return request.is_last() && consumes_receive(request) ? deliver(qp, request) : Verdict{};
}

Responder::Verdict Responder::serve_read(QueuePair& qp, const Request& request, Instant now) {
  guestmem::SpanList source;
  if (qp.attributes.max_dest_rd_atomic == 0) {
    return {.syndrome = Syndrome::kNakInvalidRequest,
            .why = "the peer read although max_dest_rd_atomic is 0",
            .event = abi::EventType::kQpReqErr};
  }
  if (request.message_bytes != 0) {
    const AccessNeed need{.flag = abi::kAccessRemoteRead, .remote = true};
    const bool allowed =
        (qp.attributes.access_flags & needed_access(request.op)) != 0 &&
        services_.mrs.check(request.rkey, qp.identity.pd, request.remote_addr, request.message_bytes, need) ==
            KeyFault::kNone &&
        services_.mrs.resolve(request.rkey, qp.identity.pd, request.remote_addr + request.offset,
                              request.bytes, need, source) == KeyFault::kNone;
    if (!allowed) {
      ++services_.counters.access_errors;
      return {.syndrome = Syndrome::kNakRemoteAccess,
              .why = "the peer read where it may not",
              .event = abi::EventType::kQpAccessErr};
    }
  }
  const bool goes_on = request.is_last() || request.end() > qp.receive.progress;
  if (request.number == qp.receive.expected && goes_on) advance(qp, request);
  services_.counters.read_bytes_served += request.bytes;
  const Response response{.from = qp.local(),
                          .to = qp.remote(),
                          .number = request.number,
                          .syndrome = Syndrome::kAck,
                          .op = RequestOp::kRead,
                          .offset = request.offset,
                          .bytes = request.bytes};
  path_of(services_, qp).send_response(response, source, now);
  return {};
}

Responder::Verdict Responder::execute_atomic(QueuePair& qp, const Request& request, std::uint64_t& original) {
  if (qp.attributes.max_dest_rd_atomic == 0 || request.remote_addr % kAtomicBytes != 0 ||
      request.message_bytes != kAtomicBytes || request.bytes != kAtomicBytes || !services_.rules.atomics) {
    return {.syndrome = Syndrome::kNakInvalidRequest,
            .why = "the peer asked for an atomic that is misaligned or not allowed here",
            .event = abi::EventType::kQpReqErr};
  }
  guestmem::SpanList target;
  const bool allowed =
      (qp.attributes.access_flags & needed_access(request.op)) != 0 &&
      services_.mrs.resolve(request.rkey, qp.identity.pd, request.remote_addr, kAtomicBytes,
                            {.flag = abi::kAccessRemoteAtomic, .remote = true}, target) == KeyFault::kNone;
  // An aligned word never straddles pages, unless the MR maps its pages at another alignment.
  if (!allowed || target.size() != 1 ||
      reinterpret_cast<std::uintptr_t>(target[0].data) % kAtomicBytes != 0) {
    ++services_.counters.access_errors;
    return {.syndrome = Syndrome::kNakRemoteAccess,
            .why = "the peer asked for an atomic where it may not",
            .event = abi::EventType::kQpAccessErr};
  }
  // Guest CPUs may touch the word at the same time: a real atomic instruction (reference 7.5).
  std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(target[0].data));
  if (request.op == RequestOp::kFetchAdd) {
    original = word.fetch_add(request.compare_add, std::memory_order_acq_rel);
  } else {
    original = request.compare_add;
    word.compare_exchange_strong(original, request.swap, std::memory_order_acq_rel);
  }
  qp.receive.replays[qp.receive.next_replay] = {
      .number = request.number, .original = original, .valid = true};
  qp.receive.next_replay = (qp.receive.next_replay + 1) % kAtomicReplays;
  ++services_.counters.atomics_served;
  advance(qp, request);
  return {};
}

// The receive WQE of a finished message becomes a CQE.
Responder::Verdict Responder::deliver(QueuePair& qp, const Request& request) {
  ReceiveSide& receive = qp.receive;
  receive.holds_receive = false;
  const bool delivered =
      completions_.complete_receive(qp, {.wr_id = receive.receive.wr_id,
                                         .status = abi::CompletionStatus::kSuccess,
                                         .with_immediate_write = request.op == RequestOp::kWrite,
                                         .extra = request.extra,
                                         .solicited = request.solicited,
                                         .extra_value = request.extra_value,
                                         .byte_len = request.message_bytes});
  if (delivered) return {};
  return {.syndrome = Syndrome::kNakRemoteOperational, .why = "its receive CQ is in error"};
}

void Responder::advance(QueuePair& qp, const Request& request) {
  ReceiveSide& receive = qp.receive;
  if (request.op != RequestOp::kRead) {
    const std::uint32_t fresh = request.end() - std::min(receive.progress, request.end());
    services_.counters.rx_bytes += fresh;
    qp.rx_bytes += fresh;
  }
  if (!request.is_last()) {
    receive.progress = request.end();
    receive.progress_op = request.op;
    return;
  }
  receive.expected = receive.expected.next();
  receive.progress = 0;
  ++services_.counters.rx_messages;
  ++qp.rx_messages;
}

void Responder::respond(QueuePair& qp, const Request& request, MessageNumber number, Syndrome syndrome,
                        Instant now, std::uint64_t atomic_original) {
  const bool names_progress =
      syndrome == Syndrome::kNakSequence || syndrome == Syndrome::kRnrNak || syndrome == Syndrome::kProgress;
  const Response response{.from = qp.local(),
                          .to = qp.remote(),
                          .number = number,
                          .syndrome = syndrome,
                          .op = request.op,
                          .rnr_timer = qp.attributes.min_rnr_timer,
                          .offset = names_progress ? qp.receive.progress : request.offset,
                          .bytes = 0,
                          .atomic_original = atomic_original};
  path_of(services_, qp).send_response(response, guestmem::SpanList{}, now);
}

}  // namespace pvrdma::verbs
