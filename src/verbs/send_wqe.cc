#include "verbs/send_wqe.h"

#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "verbs/sge_list.h"

namespace pvrdma::verbs {
namespace {

using WqeBytes = std::array<std::byte, kWqeBytesMax>;

// The longest message: what QUERY_PORT promises.
constexpr std::uint64_t kMessageBytesMax = 1ULL << 30;
constexpr std::uint32_t kAtomicBytes = 8;

void mark_failed(SendWork& work, abi::CompletionStatus status) {
  work.state = SendWork::State::kFailed;
  work.status = status;
}

// Which opcodes a QP may post. The two numberings of kernel and user space agree for 0 to 6 only, and a fast
// register from user space would map any page of the guest (reference 6.2, 9.2).
bool may_post(const Services& services, const QueuePair& qp, abi::Opcode opcode) {
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
      return !qp.is_datagram() && services.rules.atomics;
    case abi::Opcode::kSendWithInv:
    case abi::Opcode::kLocalInv:
    case abi::Opcode::kFastRegMr:
      return !qp.is_datagram() && qp.is_kernel();
    default:
      return false;
  }
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

// Everything a WQE says, checked, except a datagram's address.
void decode(const Services& services, const QueuePair& qp, const WqeBytes& bytes,
            const abi::SendWqeHeader& header, SendWork& work, abi::Sge* sges) {
  work = SendWork{};
  work.wr_id = header.wr_id;
  work.send_flags = static_cast<std::uint8_t>(header.send_flags & abi::kSendFlagMask);
  work.extra_value = header.ex.raw;

  const std::optional<abi::Opcode> opcode = abi::parse_opcode(header.opcode);
  if (!opcode || !may_post(services, qp, *opcode)) {
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
  std::memcpy(sges, bytes.data() + sizeof header, work.sge_count * sizeof(abi::Sge));
  const std::uint64_t length = total_bytes({sges, work.sge_count});
  const bool is_atomic =
      work.opcode == abi::Opcode::kAtomicCmpAndSwp || work.opcode == abi::Opcode::kAtomicFetchAndAdd;
  if (length > kMessageBytesMax || (is_atomic && length != kAtomicBytes)) {
    mark_failed(work, abi::CompletionStatus::kLocalLength);
    return;
  }
  work.length = static_cast<std::uint32_t>(length);
}

Fetched take(QueuePair& qp, WqeBytes& bytes) {
  const std::size_t wanted = sizeof(abi::SendWqeHeader) + qp.identity.cap.max_send_sge * sizeof(abi::Sge);
  switch (qp.send.ring.pop(std::span(bytes).first(wanted))) {
    case guestmem::RingStatus::kOk:
      return Fetched::kOne;
    case guestmem::RingStatus::kEmpty:
      return Fetched::kEmpty;
    default:
      return Fetched::kBroken;
  }
}

}  // namespace

Fetched fetch_send_wqe(const Services& services, QueuePair& qp, SendWork& work, abi::Sge* sges) {
  WqeBytes bytes;
  const Fetched fetched = take(qp, bytes);
  if (fetched != Fetched::kOne) return fetched;
  abi::SendWqeHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  decode(services, qp, bytes, header, work, sges);
  return fetched;
}

Fetched fetch_datagram_wqe(const Services& services, QueuePair& qp, SendWork& work, abi::Sge* sges,
                           UdAddress& address) {
  WqeBytes bytes;
  const Fetched fetched = take(qp, bytes);
  if (fetched != Fetched::kOne) return fetched;
  abi::SendWqeHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  decode(services, qp, bytes, header, work, sges);
  const auto ud = header.form<abi::UdFields>();
  address = {.remote_qpn = ud.remote_qpn, .remote_qkey = ud.remote_qkey, .av = ud.av};
  return fetched;
}

}  // namespace pvrdma::verbs
