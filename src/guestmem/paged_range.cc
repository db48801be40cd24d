#include "guestmem/paged_range.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pvrdma::guestmem {

std::optional<std::uint64_t> pages_spanned(std::uint64_t start, std::uint64_t length) {
  if (length == 0) return 0;
  if (length - 1 > std::numeric_limits<std::uint64_t>::max() - start) return std::nullopt;
  return (start + (length - 1)) / kPageBytes - start / kPageBytes + 1;
}

bool PagedRange::assign(std::uint64_t start, std::uint64_t length, PageList& pages) {
  const std::optional<std::uint64_t> spanned = pages_spanned(start, length);
  if (!spanned || *spanned == 0 || *spanned > pages.size()) return false;
  start_ = start;
  length_ = length;
  std::swap(pages_, pages);
  return true;
}

Resolved PagedRange::resolve(const AddressSpace& memory, std::uint64_t va, std::uint64_t length,
                             Access access, SpanList& out) const {
  if (!contains(va, length)) return Resolved::kFault;
  const SpanList::Mark before = out.mark();
  std::uint64_t offset = start_ % kPageBytes + (va - start_);  // from the start of the first page
  while (length != 0) {
    const std::uint64_t in_page = offset % kPageBytes;
    const std::uint64_t size = std::min(length, kPageBytes - in_page);
    const GuestPhys page = pages_.at(static_cast<std::uint32_t>(offset / kPageBytes));
    std::byte* host = memory.translate(GuestPhys(page.value + in_page), size, access);
    if (host == nullptr) {
      out.rewind(before);
      return Resolved::kFault;
    }
    if (!out.append(host, static_cast<std::size_t>(size))) return Resolved::kListFull;
    offset += size;
    length -= size;
  }
  return Resolved::kAll;
}

}  // namespace pvrdma::guestmem
