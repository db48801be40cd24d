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
  if (length == 0) return Resolved::kAll;
  const SpanList::Mark before = out.mark();
  const std::uint64_t offset = first_page_offset(va);
  std::uint64_t in_page = offset % kPageBytes;
  const std::uint64_t page_count = (in_page + length + kPageBytes - 1) / kPageBytes;
  AddressSpace::Cursor cursor(memory, access);
  HostSpan run{nullptr, 0};  // pages that are contiguous in host memory
  for (const GuestPhys page :
       pages_.from(static_cast<std::uint32_t>(offset / kPageBytes), static_cast<std::uint32_t>(page_count))) {
    const std::uint64_t size = std::min(length, kPageBytes - in_page);
    std::byte* host = cursor.translate(GuestPhys(page.value + in_page), size);
    if (host == nullptr) {
      out.rewind(before);
      return Resolved::kFault;
    }
    if (host == run.data + run.size) {
      run.size += static_cast<std::size_t>(size);
    } else {
      if (!out.append(run.data, run.size)) return Resolved::kListFull;
      run = HostSpan{host, static_cast<std::size_t>(size)};
    }
    length -= size;
    in_page = 0;
  }
  return out.append(run.data, run.size) ? Resolved::kAll : Resolved::kListFull;
}

}  // namespace pvrdma::guestmem
