#include "verbs/completion.h"

#include <algorithm>

#include "verbs/send_wqe.h"

namespace pvrdma::verbs {
namespace {

// WQEs flushed in one turn. The bound keeps a guest that goes on posting to a dead QP from occupying the
// shard.
constexpr std::uint32_t kFlushPerTurn = 1024;

abi::CompletionOpcode completion_opcode(abi::Opcode opcode) {
  switch (opcode) {
    case abi::Opcode::kRdmaWrite:
    case abi::Opcode::kRdmaWriteWithImm:
      return abi::CompletionOpcode::kRdmaWrite;
    case abi::Opcode::kRdmaRead:
      return abi::CompletionOpcode::kRdmaRead;
    case abi::Opcode::kAtomicCmpAndSwp:
      return abi::CompletionOpcode::kCompSwap;
    case abi::Opcode::kAtomicFetchAndAdd:
      return abi::CompletionOpcode::kFetchAdd;
    case abi::Opcode::kLocalInv:
      return abi::CompletionOpcode::kLocalInv;
    case abi::Opcode::kFastRegMr:
      return abi::CompletionOpcode::kFastRegMr;
    default:
      return abi::CompletionOpcode::kSend;
  }
}

bool is_signalled(const QueuePair& qp, const SendWork& work) {
  return qp.identity.signal_all || (work.send_flags & abi::kSendSignaled) != 0;
}

}  // namespace

bool Completions::push(QueuePair& qp, CompletionQueue& cq, const abi::Cqe& cqe, Solicited solicited) {
  if (cq.push(cqe, solicited) == CompletionQueue::Pushed::kOk) return true;
  // The CQ has already reported its error. Its other QPs fail when they next complete something on it, each
  // at its own cost: a guest may have any number of such QPs (reference 7.6).
  ++services_.counters.cq_overflows;
  fail_qp(qp, "its CQ is in error", abi::EventType::kQpFatal);
  return false;
}

bool Completions::complete_send(QueuePair& qp, const SendWork& work, abi::CompletionStatus status) {
  if (status == abi::CompletionStatus::kSuccess && !is_signalled(qp, work)) return true;
  abi::Cqe cqe{};
  cqe.wr_id = work.wr_id;
  cqe.qp = qp.identity.handle.value;
  cqe.opcode = static_cast<std::uint32_t>(completion_opcode(work.opcode));
  cqe.status = static_cast<std::uint32_t>(status);
  cqe.byte_len = work.is_read_or_atomic() ? work.length : 0;
  cqe.port_num = 1;
  return push(qp, qp.send_cq, cqe, Solicited::kNo);
}

bool Completions::complete_receive(QueuePair& qp, const Received& received) {
  abi::Cqe cqe{};
  cqe.wr_id = received.wr_id;
  cqe.qp = qp.identity.handle.value;
  cqe.opcode = static_cast<std::uint32_t>(
      received.with_immediate_write ? abi::CompletionOpcode::kRecvRdmaWithImm : abi::CompletionOpcode::kRecv);
  cqe.status = static_cast<std::uint32_t>(received.status);
  cqe.byte_len = received.byte_len;
  cqe.src_qp = received.src_qpn;
  cqe.sl = received.service_level;
  cqe.port_num = 1;
  if (received.extra != Extra::kNone) {
    cqe.imm_data.raw = received.extra_value;
    cqe.wc_flags |= received.extra == Extra::kImmediate ? abi::kWcWithImm : abi::kWcWithInvalidate;
  }
  if (received.has_grh) {
    cqe.wc_flags |= abi::kWcGrh;
    if (qp.is_kernel()) {  // in user verbs the bit means something else
      cqe.wc_flags |= abi::kWcWithNetworkHdrType;
      cqe.network_hdr_type = received.network_type;
    }
  }
  return push(qp, qp.recv_cq, cqe, received.solicited ? Solicited::kYes : Solicited::kNo);
}

void Completions::fail_qp(QueuePair& qp, std::string_view why, std::optional<abi::EventType> event) {
  if (qp.state() == abi::QpState::kErr || qp.state() == abi::QpState::kReset) return;
  services_.loans.stop(qp);
  qp.attributes.state = abi::QpState::kErr;
  qp.send.ack_deadline = Instant::never();
  qp.send.rnr_until = Instant::never();
  if (event) services_.events.async_event(*event, qp.identity.handle.value);
  services_.events.qp_failed(qp.identity.qpn, why);
  services_.scheduler.make_ready(qp);  // so that its next turn flushes it
}

void Completions::ring_broken(QueuePair& qp, std::string_view which) {
  ++services_.counters.invalid_ring_indices;
  fail_qp(qp, which, abi::EventType::kQpFatal);
}

bool Completions::flush(QueuePair& qp) {
  const std::uint32_t granted = std::min(kFlushPerTurn, services_.share.works_left());
  std::uint32_t budget = granted;
  bool more = flush_sends(qp, budget);
  if (qp.state() == abi::QpState::kErr) more |= flush_receives(qp, budget);
  services_.share.spend(granted - budget, 0);
  return more;
}

bool Completions::flush_sends(QueuePair& qp, std::uint32_t& budget) {
  SendSide& send = qp.send;
  while (!send.window.empty()) {
    if (budget == 0) return true;
    --budget;
    ++services_.counters.flushed;
    const bool pushed =
        complete_send(qp, send.window.at(send.window.head()), abi::CompletionStatus::kFlushed);
    send.pop();
    if (!pushed) send.window.clear();
  }
  send.sending = send.window.tail();
  send.reads_outstanding = 0;

  UdAddress ignored;
  while (!qp.send_cq.in_error()) {
    if (budget == 0) return true;
    --budget;
    SendWork& work = send.window.staging();
    const Fetched fetched = qp.is_datagram()
                                ? fetch_datagram_wqe(services_, qp, work, send.window.staging_sges(), ignored)
                                : fetch_send_wqe(services_, qp, work, send.window.staging_sges());
    if (fetched != Fetched::kOne) return false;
    ++services_.counters.flushed;
    if (!complete_send(qp, work, abi::CompletionStatus::kFlushed)) return false;
  }
  return false;
}

bool Completions::flush_receives(QueuePair& qp, std::uint32_t& budget) {
  ReceiveSide& receive = qp.receive;
  if (receive.holds_receive && !qp.recv_cq.in_error()) {
    receive.holds_receive = false;
    ++services_.counters.flushed;
    complete_receive(qp, {.wr_id = receive.receive.wr_id, .status = abi::CompletionStatus::kFlushed});
  }
  if (receive.srq != nullptr) {
    if (!receive.last_wqe_reported) {
      receive.last_wqe_reported = true;
      services_.events.async_event(abi::EventType::kQpLastWqeReached, qp.identity.handle.value);
    }
    return false;
  }
  while (receive.queue && !qp.recv_cq.in_error()) {
    if (budget == 0) return true;
    --budget;
    if (receive.queue->take(receive.receive) != Taken::kOne) return false;
    ++services_.counters.flushed;
    if (!complete_receive(qp, {.wr_id = receive.receive.wr_id, .status = abi::CompletionStatus::kFlushed}))
      return false;
  }
  return false;
}

}  // namespace pvrdma::verbs
