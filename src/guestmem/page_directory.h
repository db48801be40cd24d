// Page directories: how a guest names the scattered pages of a ring or memory region (docs/device.md
// section 4.1).
//
// A directory page has 512 guest-physical addresses of table pages. A table page has 512 addresses of data
// pages. Each page of both levels is copied once, and every address in the copy is checked. Later changes by
// the guest have no effect. The number of pages comes from the command, never from the directory. Thread:
// values, shard-owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "guestmem/address_space.h"
#include "guestmem/page_list_memory.h"

namespace pvrdma::guestmem {

// The most pages that two levels can name: 1 GiB.
inline constexpr std::uint32_t kMaxDirectoryPages = 512 * 512;

// Addresses of 4 KiB pages, each page-aligned. They were RAM when the list was made; translate them at every
// use.
class PageList {
 public:
  // `memory` is borrowed and outlives the list.
  explicit PageList(std::pmr::memory_resource& memory = *std::pmr::new_delete_resource())
      : pages_(ListAllocator<GuestPhys>(memory)) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(pages_.size()); }
  GuestPhys at(std::uint32_t index) const {
    PVRDMA_CHECK(index < pages_.size(), "page index beyond the list");
    return pages_[index];
  }
  // `count` pages from `index` on. The list must have them.
  std::span<const GuestPhys> from(std::uint32_t index, std::uint32_t count) const {
    PVRDMA_CHECK(index <= pages_.size() && count <= pages_.size() - index, "pages beyond the list");
    return std::span(pages_).subspan(index, count);
  }

  // Takes the memory for `count` pages, so that filling the list with as many does not allocate.
  void reserve(std::uint32_t count) { pages_.reserve(count); }
  void clear() { pages_.clear(); }
  // `page` is page-aligned.
  void append(GuestPhys page) {
    PVRDMA_CHECK(page.value % kPageBytes == 0, "pages are aligned");
    pages_.push_back(page);
  }

 private:
  std::vector<GuestPhys, ListAllocator<GuestPhys>> pages_;
};

enum class DirectoryStatus : std::uint8_t {
  kOk,
  kBadCount,      // no pages, or more than the caller's limit
  kBadDirectory,  // the directory page is unaligned or not readable RAM
  kBadTable,      // a table page is unaligned or not readable RAM
  kBadPage,       // a data page is unaligned or not RAM
};

// Replaces the contents of `out` by the first `page_count` pages that the directory at `directory` names.
// `page_limit` is the most that the caller accepts, at most kMaxDirectoryPages. On any status but kOk `out`
// is empty. Allocates only if `out` has room reserved for fewer pages.
[[nodiscard]] DirectoryStatus read_page_directory(const AddressSpace& memory, GuestPhys directory,
                                                  std::uint32_t page_count, std::uint32_t page_limit,
                                                  PageList& out);

}  // namespace pvrdma::guestmem
