#include "guestmem/page_directory.h"

#include <algorithm>
#include <array>
#include <span>

#include "guestmem/copy.h"

namespace pvrdma::guestmem {
namespace {

constexpr std::uint32_t kEntriesPerPage = kPageBytes / sizeof(std::uint64_t);
using TablePage = std::array<std::uint64_t, kEntriesPerPage>;

// Copies the first `count` entries of a directory or table page, once. Returns false if the page is unaligned
// or not RAM.
bool copy_entries(const AddressSpace& memory, std::uint64_t page, std::uint32_t count, TablePage& out) {
  return page % kPageBytes == 0 &&
         read(memory, GuestPhys(page), std::as_writable_bytes(std::span(out).first(count)));
}

DirectoryStatus walk(const AddressSpace& memory, GuestPhys directory, std::uint32_t page_count,
                     PageList& out) {
  TablePage tables;
  TablePage table;
  AddressSpace::Cursor cursor(memory, Access::kRead);  // adjacent pages are mostly in one range
  const std::uint32_t table_count = (page_count + kEntriesPerPage - 1) / kEntriesPerPage;
  if (!copy_entries(memory, directory.value, table_count, tables)) return DirectoryStatus::kBadDirectory;
  for (std::uint32_t t = 0; t < table_count; ++t) {
    const std::uint32_t entries = std::min(kEntriesPerPage, page_count - t * kEntriesPerPage);
    if (!copy_entries(memory, tables[t], entries, table)) return DirectoryStatus::kBadTable;
    for (std::uint32_t i = 0; i < entries; ++i) {
      const GuestPhys page(table[i]);
      if (page.value % kPageBytes != 0 || cursor.translate(page, kPageBytes) == nullptr)
        return DirectoryStatus::kBadPage;
      out.append(page);
    }
  }
  return DirectoryStatus::kOk;
}

}  // namespace

DirectoryStatus read_page_directory(const AddressSpace& memory, GuestPhys directory, std::uint32_t page_count,
                                    std::uint32_t page_limit, PageList& out) {
  PVRDMA_CHECK(page_limit <= kMaxDirectoryPages, "a directory names at most 262144 pages");
  out.clear();
  if (page_count == 0 || page_count > page_limit) return DirectoryStatus::kBadCount;
  out.reserve(page_count);
  const DirectoryStatus status = walk(memory, directory, page_count, out);
  if (status != DirectoryStatus::kOk) out.clear();
  return status;
}

}  // namespace pvrdma::guestmem
