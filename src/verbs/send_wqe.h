// Send WQEs: from the guest's bytes to a validated SendWork. Reference 6.1, 6.2, 9.2. Thread: shard-owned.
#pragma once

#include "verbs/services.h"

namespace pvrdma::verbs {

enum class Fetched : std::uint8_t { kOne, kEmpty, kBroken };

// The longest message: what QUERY_PORT promises.
inline constexpr std::uint64_t kMessageBytesMax = 1ULL << 30;
inline constexpr std::uint32_t kAtomicBytes = 8;

// Which opcodes a QP may post. The two numberings of kernel and user space agree for 0 to 6 only, and a fast
// register from user space would map any page of the guest (reference 6.2, 9.2).
bool may_post(const Rules& rules, const QueuePair& qp, abi::Opcode opcode);

// Copies the next send WQE of `qp` once and advances the guest's cons_head. On kOne, `work` and `sges` (room
// for the QP's max_send_sge) hold the copy; a WQE that breaks a rule comes back in state kFailed with the
// status to complete it with. `qp.send.next_number` is not touched.
Fetched fetch_send_wqe(const Services& services, QueuePair& qp, SendWork& work, abi::Sge* sges);

struct UdAddress {
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  abi::AddressVector av{};
};
// As fetch_send_wqe, and the address of a datagram.
Fetched fetch_datagram_wqe(const Services& services, QueuePair& qp, SendWork& work, abi::Sge* sges,
                           UdAddress& address);

}  // namespace pvrdma::verbs
