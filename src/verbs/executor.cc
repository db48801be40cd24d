#include "verbs/executor.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "verbs/sge_list.h"

namespace pvrdma::verbs {
namespace {

constexpr std::uint32_t kAtomicBytes = 8;

}  // namespace

Verdict Executor::execute(QueuePair& qp, const Request& request, Payload& payload) {
  PVRDMA_CHECK(request.op != RequestOp::kRead, "reads come through open_read()");
  if (request.is_atomic()) return execute_atomic(qp, request);
  return request.op == RequestOp::kSend ? execute_send(qp, request, payload)
                                        : execute_write(qp, request, payload);
}

Verdict Executor::take_receive(QueuePair& qp) {
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
              .why = "its receive queue has an invalid index, or a page of it is gone",
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

Verdict Executor::execute_send(QueuePair& qp, const Request& request, Payload& payload) {
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
                   "a receive named memory that it may not use");
  }
  if (!place(qp, request, payload, target)) return {.lost = true};
  if (request.is_last() && request.extra == Extra::kInvalidate &&
      !invalidate(request.extra_value, qp.identity.pd)) {
    ++services_.counters.access_errors;
    return give_up(abi::CompletionStatus::kLocalQpOperation, Syndrome::kNakRemoteAccess,
                   "the peer asked to invalidate a key that is not valid here");
  }
  advance(qp, request);
  return request.is_last() ? deliver(qp, request) : Verdict{};
}

// Places the payload. Returns false if the message counts as not (yet) arrived.
bool Executor::place(QueuePair& qp, const Request& request, Payload& payload,
                     const guestmem::SpanList& target) {
  const Placed placed = payload.place(target);
  if (placed == Placed::kLater) services_.loans.begin_placing(qp, request);
  return placed == Placed::kDone;
}

bool Executor::invalidate(std::uint32_t key, PdHandle pd) {
  services_.loans.stop_key(key);
  return services_.mrs.invalidate(key, pd);
}

Verdict Executor::execute_write(QueuePair& qp, const Request& request, Payload& payload) {
  guestmem::SpanList target;
  if (!may_access(qp, request, abi::kAccessRemoteWrite, target))
    return no_access("the peer tried to write to memory that it may not write to");
  const bool completes_receive = request.is_last() && request.extra == Extra::kImmediate;
  if (completes_receive) {
    if (const Verdict verdict = take_receive(qp); verdict.syndrome != Syndrome::kAck) return verdict;
  }
  if (!place(qp, request, payload, target)) return {.lost = true};
  advance(qp, request);
  return completes_receive ? deliver(qp, request) : Verdict{};
}

void Executor::place_ahead(QueuePair& qp, const Request& request, Payload& payload) {
  guestmem::SpanList target;
  if (may_access(qp, request, abi::kAccessRemoteWrite, target))
    static_cast<void>(place(qp, request, payload, target));
}

Verdict Executor::open_read(const QueuePair& qp, const Request& request, guestmem::SpanList& source) {
  if (qp.attributes.max_dest_rd_atomic == 0) {
    return {.syndrome = Syndrome::kNakInvalidRequest,
            .why = "the peer tried to read although max_dest_rd_atomic is 0",
            .event = abi::EventType::kQpReqErr};
  }
  if (!may_access(qp, request, abi::kAccessRemoteRead, source))
    return no_access("the peer tried to read memory that it may not read");
  services_.counters.read_bytes_served += request.bytes;
  return {};
}

// Whether the QP and the key permit the access for the whole message. `spans` receives the memory of this
// piece.
bool Executor::may_access(const QueuePair& qp, const Request& request, std::uint32_t flag,
                          guestmem::SpanList& spans) const {
  if (request.message_bytes == 0) return true;
  const AccessNeed need{.flag = flag, .remote = true};
  const PdHandle pd = qp.identity.pd;
  const bool is_whole =
      request.bytes == request.message_bytes;  // then resolving the piece checks the whole message
  return (qp.attributes.access_flags & flag) != 0 &&
         (is_whole || services_.mrs.check(request.rkey, pd, request.remote_addr, request.message_bytes,
                                          need) == KeyFault::kNone) &&
         services_.mrs.resolve(request.rkey, pd, request.remote_addr + request.offset, request.bytes, need,
                               spans) == KeyFault::kNone;
}

Verdict Executor::no_access(std::string_view why) {
  ++services_.counters.access_errors;
  return {.syndrome = Syndrome::kNakRemoteAccess, .why = why, .event = abi::EventType::kQpAccessErr};
}

Verdict Executor::execute_atomic(QueuePair& qp, const Request& request) {
  if (qp.attributes.max_dest_rd_atomic == 0 || request.remote_addr % kAtomicBytes != 0 ||
      request.message_bytes != kAtomicBytes || request.bytes != kAtomicBytes || !services_.rules.atomics) {
    return {.syndrome = Syndrome::kNakInvalidRequest,
            .why = "the peer asked for an atomic that is misaligned or not allowed here",
            .event = abi::EventType::kQpReqErr};
  }
  guestmem::SpanList target;
  // An aligned word never straddles pages, unless the MR maps its pages at a different alignment.
  if (!may_access(qp, request, abi::kAccessRemoteAtomic, target) || target.size() != 1 ||
      reinterpret_cast<std::uintptr_t>(target[0].data) % kAtomicBytes != 0) {
    return no_access("the peer asked for an atomic on memory where it may not do one");
  }
  // Guest CPUs may access the word at the same time, so this must be a real atomic instruction (reference
  // 7.5).
  std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(target[0].data));
  std::uint64_t original = request.compare_add;
  if (request.op == RequestOp::kFetchAdd) {
    original = word.fetch_add(request.compare_add, std::memory_order_acq_rel);
  } else {
    word.compare_exchange_strong(original, request.swap, std::memory_order_acq_rel);
  }
  qp.receive.replays.remember(request.psn, original);
  ++services_.counters.atomics_served;
  advance(qp, request);
  return {.atomic_original = original};
}

// Completes the receive WQE of a finished message with a CQE.
Verdict Executor::deliver(QueuePair& qp, const Request& request) {
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

void Executor::advance(QueuePair& qp, const Request& request) {
  ReceiveSide& receive = qp.receive;
  if (request.op != RequestOp::kRead) {
    const std::uint32_t fresh = request.end() - std::min(receive.under_way.executed, request.end());
    services_.counters.rx_bytes += fresh;
    qp.rx_bytes += fresh;
  }
  if (!request.is_last()) {
    receive.psn = request.psn;
    receive.under_way = {.executed = request.end(),
                         .op = request.op,
                         .message_bytes = request.message_bytes,
                         .rkey = request.rkey,
                         .remote_addr = request.remote_addr};
    return;
  }
  receive.expected = receive.expected.next();
  receive.psn = request.psn + packet_count(request.message_bytes, qp.attributes.path_mtu);
  receive.under_way = {};
  ++services_.counters.rx_messages;
  ++qp.rx_messages;
}

}  // namespace pvrdma::verbs
