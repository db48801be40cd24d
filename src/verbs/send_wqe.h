// Send WQEs: turns the guest's bytes into a validated SendWork. Reference 6.1, 6.2, 9.2. Thread: shard-owned.
#pragma once

#include "verbs/services.h"

namespace pvrdma::verbs {

enum class Fetched : std::uint8_t { kOne, kEmpty, kBroken };

// The longest message, as QUERY_PORT tells the guest.
inline constexpr std::uint64_t kMessageBytesMax = 1ULL << 30;
inline constexpr std::uint32_t kAtomicBytes = 8;

// Whether the QP may post the opcode. Kernel and user space number only the opcodes 0 to 6 in the same way. A
// fast register from user space could map any page of the guest (reference 6.2, 9.2).
bool may_post(const Rules& rules, const QueuePair& qp, abi::Opcode opcode);

// Copies the next send WQE of `qp` once and advances the guest's cons_head. On kOne, `work` and `sges` (room
// for the QP's max_send_sge) hold the copy. A WQE that breaks a rule is returned in state kFailed, with the
// status with which to complete it. `qp.send.next_number` does not change.
Fetched fetch_send_wqe(const Services& services, QueuePair& qp, SendWork& work, abi::Sge* sges);

struct UdAddress {
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  abi::AddressVector av{};
};
// Like fetch_send_wqe(), and also returns the address of a datagram.
Fetched fetch_datagram_wqe(const Services& services, QueuePair& qp, SendWork& work, abi::Sge* sges,
                           UdAddress& address);

}  // namespace pvrdma::verbs
