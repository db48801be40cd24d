#include "verbs/send_wqe.h"

#include <array>
#include <optional>
#include <span>

namespace pvrdma::verbs {
namespace {

// A WQE as the guest wrote it, copied once. SGEs beyond the QP's max_send_sge are not filled.
struct Wqe {
  abi::SendWqeHeader header;
  std::array<abi::Sge, kSgeMax> sges;
};
static_assert(sizeof(Wqe) == sizeof(abi::SendWqeHeader) + kSgeMax * sizeof(abi::Sge));

void mark_failed(SendWork& work, abi::CompletionStatus status) {
  work.state = SendWork::State::kFailed;
  work.status = status;
}

void decode_fields(const abi::SendWqeHeader& header, SendWork& work) {
  switch (work.opcode) {
    case abi::Opcode::kRdmaWrite:
    case abi::Opcode::kRdmaWriteWithImm:
    case abi::Opcode::kRdmaRead: {
      const auto rdma = header.form<abi::RdmaFields>();
      work.remote_addr = rdma.remote_addr;
      work.rkey = rdma.rkey;
      break;
    }
    case abi::Opcode::kAtomicCmpAndSwp:
    case abi::Opcode::kAtomicFetchAndAdd: {
      const auto atomic = header.form<abi::AtomicFields>();
      work.remote_addr = atomic.remote_addr;
      work.rkey = atomic.rkey;
      work.compare_add = atomic.compare_add;
      work.swap = atomic.swap;
      break;
    }
    case abi::Opcode::kFastRegMr:
      work.fast_reg = header.form<abi::FastRegFields>();
      break;
    default:
      break;
  }
}

bool uses_sges(abi::Opcode opcode) {
  return opcode != abi::Opcode::kLocalInv && opcode != abi::Opcode::kFastRegMr;
}

// Checks a WQE and copies it into `work` and `sges`, except for a datagram's address.
void decode(const Services& services, const QueuePair& qp, const Wqe& wqe, SendWork& work, abi::Sge* sges) {
  const abi::SendWqeHeader& header = wqe.header;
  static_cast<SendWorkState&>(work) = {};
  work.wr_id = header.wr_id;
  work.send_flags = static_cast<std::uint8_t>(header.send_flags & abi::kSendFlagMask);
  work.extra_value = header.ex.raw;

  const std::optional<abi::Opcode> opcode = abi::parse_opcode(header.opcode);
  if (!opcode || !may_post(services.rules, qp, *opcode)) {
    mark_failed(work, abi::CompletionStatus::kLocalQpOperation);
    return;
  }
  work.opcode = *opcode;
  decode_fields(header, work);
  if (!uses_sges(work.opcode)) return;

  if (header.num_sge > qp.identity.cap.max_send_sge) {
    mark_failed(work, abi::CompletionStatus::kLocalQpOperation);
    return;
  }
  work.sge_count = static_cast<std::uint8_t>(header.num_sge);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < work.sge_count; ++i) {
    sges[i] = wqe.sges[i];
    length += wqe.sges[i].length;
  }
  const bool is_atomic =
      work.opcode == abi::Opcode::kAtomicCmpAndSwp || work.opcode == abi::Opcode::kAtomicFetchAndAdd;
  if (length > kMessageBytesMax || (is_atomic && length != kAtomicBytes)) {
    mark_failed(work, abi::CompletionStatus::kLocalLength);
    return;
  }
  work.length = static_cast<std::uint32_t>(length);
}

Fetched take(QueuePair& qp, Wqe& wqe) {
  const std::size_t wanted = sizeof(abi::SendWqeHeader) + qp.identity.cap.max_send_sge * sizeof(abi::Sge);
  switch (qp.send.ring.pop(std::as_writable_bytes(std::span(&wqe, 1)).first(wanted))) {
    case guestmem::RingStatus::kOk:
      return Fetched::kOne;
    case guestmem::RingStatus::kEmpty:
      return Fetched::kEmpty;
    default:
      return Fetched::kBroken;
  }
}

}  // namespace

bool may_post(const Rules& rules, const QueuePair& qp, abi::Opcode opcode) {
  switch (opcode) {
    case abi::Opcode::kSend:
    case abi::Opcode::kSendWithImm:
      return true;
    case abi::Opcode::kRdmaWrite:
    case abi::Opcode::kRdmaWriteWithImm:
    case abi::Opcode::kRdmaRead:
      return !qp.is_datagram();
    case abi::Opcode::kAtomicCmpAndSwp:
    case abi::Opcode::kAtomicFetchAndAdd:
      return !qp.is_datagram() && rules.atomics;
    case abi::Opcode::kSendWithInv:
    case abi::Opcode::kLocalInv:
    case abi::Opcode::kFastRegMr:
      return !qp.is_datagram() && qp.is_kernel();
    default:
      return false;
  }
}

Fetched fetch_send_wqe(const Services& services, QueuePair& qp, SendWork& work, abi::Sge* sges) {
  Wqe wqe;
  const Fetched fetched = take(qp, wqe);
  if (fetched != Fetched::kOne) return fetched;
  decode(services, qp, wqe, work, sges);
  return fetched;
}

Fetched fetch_datagram_wqe(const Services& services, QueuePair& qp, SendWork& work, abi::Sge* sges,
                           UdAddress& address) {
  Wqe wqe;
  const Fetched fetched = take(qp, wqe);
  if (fetched != Fetched::kOne) return fetched;
  decode(services, qp, wqe, work, sges);
  const auto ud = wqe.header.form<abi::UdFields>();
  address = {.remote_qpn = ud.remote_qpn, .remote_qkey = ud.remote_qkey, .av = ud.av};
  return fetched;
}

}  // namespace pvrdma::verbs
