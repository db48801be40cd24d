// A scatter/gather list as one range of bytes. Thread: shard-owned.
#pragma once

#include <cstdint>
#include <span>

#include "abi/wqe.h"
#include "guestmem/host_span.h"
#include "verbs/memory_region.h"

namespace pvrdma::verbs {

// Appends the host memory of bytes [offset, offset + bytes) of the list to `out`. Checks key, PD, bounds and
// permission of each SGE that the range touches. The range must lie in the list. Does not allocate.
KeyFault resolve_sges(const MemoryRegionTable& mrs, PdHandle pd, std::span<const abi::Sge> sges,
                      std::uint64_t offset, std::uint64_t bytes, AccessNeed need, guestmem::SpanList& out);

}  // namespace pvrdma::verbs
