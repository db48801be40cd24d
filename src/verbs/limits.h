// What one adapter's engine may hold, and the rules that it follows. Immutable after create. account.h bounds
// how much of the host's memory all of it takes.
#pragma once

#include <cstdint>

#include "abi/attributes.h"
#include "verbs/ids.h"

namespace pvrdma::verbs {

// Absolute bounds that no configuration can raise: they size fixed arrays.
inline constexpr std::uint32_t kSgeMax = 32;
inline constexpr std::uint32_t kRdAtomicMax = 16;  // atomics of one QP whose results its responder remembers

struct Limits {
  std::uint32_t max_context = 1024;  // UAR pages, a power of two, including the kernel's
  std::uint32_t max_pd = 4096;
  std::uint32_t max_mr = 262144;
  std::uint32_t max_cq = 4096;
  std::uint32_t max_cqe = 262144;
  std::uint32_t max_qp = 32768;
  std::uint32_t max_qp_wr = 1024;  // for kernel QPs; see max_user_qp_wr
  std::uint32_t max_user_qp_wr = 16384;
  std::uint32_t max_sge = 16;
  std::uint32_t max_srq = 256;  // 0: no SRQ
  std::uint32_t max_srq_wr = 4096;
  std::uint32_t max_rd_atomic = 16;  // per QP, both directions
  std::uint32_t max_ah = 4096;
  std::uint32_t gid_table_length = 64;
  abi::Mtu mtu = abi::Mtu::k1024;  // the port's active MTU: the longest UD payload
  std::uint64_t max_mr_bytes = 1ULL << 30;
  std::uint32_t max_ud_qp = 0;  // 0: bounded only by the number of QPs. 3 in the esxi profile
};

struct Rules {
  bool qp_handle_is_qpn = false;  // device versions below 20
  bool atomics = true;
  RoceVersion roce = RoceVersion::kV2;
  bool mapped_doorbells = false;  // doorbells of user contexts lie in memory, where one overwrites another
};

}  // namespace pvrdma::verbs
