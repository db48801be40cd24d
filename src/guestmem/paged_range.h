// PagedRange: a range of a guest's virtual addresses with its page list, as a memory region has one.
//
// The byte at address va is in page ((start & 4095) + va - start) >> 12 (docs/device.md 6.4 and 7.5). The
// range owns its page list. Thread: shard-owned.
#pragma once

#include <cstdint>
#include <optional>

#include "guestmem/address_space.h"
#include "guestmem/host_span.h"
#include "guestmem/page_directory.h"

namespace pvrdma::guestmem {

// The number of pages that [start, start + length) touches; 0 for a length of 0. Nothing when the range
// wraps.
std::optional<std::uint64_t> pages_spanned(std::uint64_t start, std::uint64_t length);

class PagedRange {
 public:
  // An empty range, which resolves nothing.
  PagedRange() = default;

  // Becomes [start, start + length) over `pages`, which must have at least as many pages as the range spans.
  // On success `pages` holds the previous page list: a caller that reserves two lists beforehand can register
  // again and again without allocating. Returns false and changes nothing when length is 0, the range wraps,
  // or there are too few pages.
  [[nodiscard]] bool assign(std::uint64_t start, std::uint64_t length, PageList& pages);

  std::uint64_t start() const { return start_; }
  std::uint64_t length() const { return length_; }  // bytes
  std::uint32_t page_count() const { return pages_.size(); }
  const PageList& pages() const { return pages_; }

  // True if [va, va + length) lies inside.
  bool contains(std::uint64_t va, std::uint64_t length) const {
    return va >= start_ && va - start_ <= length_ && length <= length_ - (va - start_);
  }

  // Appends the host pieces of [va, va + length) to `out`, page by page, and merges contiguous ones. Returns
  // kFault also when [va, va + length) is not inside this range. After kListFull, go on at va + (bytes
  // appended). Does not allocate.
  [[nodiscard]] Resolved resolve(const AddressSpace& memory, std::uint64_t va, std::uint64_t length,
                                 Access access, SpanList& out) const;

  // Host address of [va, va + length), which must be inside the range. Returns nullptr if it crosses a page
  // boundary, or if its page is not RAM with that right. Most messages need only this.
  std::byte* translate_in_page(const AddressSpace& memory, std::uint64_t va, std::uint64_t length,
                               Access access) const {
    const std::uint64_t offset = first_page_offset(va);
    const std::uint64_t in_page = offset % kPageBytes;
    if (length > kPageBytes - in_page) return nullptr;
    const GuestPhys page = pages_.at(static_cast<std::uint32_t>(offset / kPageBytes));
    return memory.translate(GuestPhys(page.value + in_page), length, access);
  }

 private:
  // The offset of the byte at `va` from the start of the first page.
  std::uint64_t first_page_offset(std::uint64_t va) const { return start_ % kPageBytes + (va - start_); }

  std::uint64_t start_ = 0;
  std::uint64_t length_ = 0;
  PageList pages_;
};

}  // namespace pvrdma::guestmem
