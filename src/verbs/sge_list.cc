#include "verbs/sge_list.h"

#include <algorithm>

namespace pvrdma::verbs {

KeyFault resolve_sges(const MemoryRegionTable& mrs, PdHandle pd, std::span<const abi::Sge> sges,
                      std::uint64_t offset, std::uint64_t bytes, AccessNeed need, guestmem::SpanList& out) {
  for (const abi::Sge& sge : sges) {
    if (bytes == 0) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::uint64_t here = std::min<std::uint64_t>(bytes, sge.length - offset);
    if (sge.addr > UINT64_MAX - offset) return KeyFault::kOutOfBounds;
    const KeyFault fault = mrs.resolve(sge.lkey, pd, sge.addr + offset, here, need, out);
    if (fault != KeyFault::kNone) return fault;
    bytes -= here;
    offset = 0;
  }
  return KeyFault::kNone;
}

}  // namespace pvrdma::verbs
