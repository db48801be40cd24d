// A scatter/gather list as one range of bytes. Thread: shard-owned.
#pragma once

#include <cstdint>
#include <span>

#include "abi/wqe.h"
#include "guestmem/host_span.h"
#include "verbs/memory_region.h"

namespace pvrdma::verbs {

inline std::uint64_t total_bytes(std::span<const abi::Sge> sges) {
  std::uint64_t total = 0;
  for (const abi::Sge& sge : sges) total += sge.length;
  return total;
}

// Appends the host pieces of bytes [offset, offset + bytes) of the list to `out`, checking key, PD, bounds
// and permission of each SGE touched. The range must lie in the list. No allocation.
KeyFault resolve_sges(const MemoryRegionTable& mrs, PdHandle pd, std::span<const abi::Sge> sges,
                      std::uint64_t offset, std::uint64_t bytes, AccessNeed need, guestmem::SpanList& out);

}  // namespace pvrdma::verbs
