#include "driver/page_directory.h"

#include <atomic>
#include <cerrno>
#include <string>

#include "abi/layout.h"
#include "base/check.h"

namespace pvrdma::driver {
namespace {

constexpr std::size_t kEntriesPerTable = abi::kPageBytes / sizeof(std::uint64_t);

}  // namespace

Result<std::unique_ptr<PageDirectory>> PageDirectory::create(GuestRam& ram, std::size_t page_capacity) {
  if (page_capacity == 0 || page_capacity > kPagesMax) {
    return fail(EINVAL, "a page directory holds 1 to 262144 pages, not " + std::to_string(page_capacity));
  }
  const std::size_t table_count = (page_capacity + kEntriesPerTable - 1) / kEntriesPerTable;
  auto directory = ram.allocate(abi::kPageBytes);
  if (!directory) return Failure(std::move(directory.error()));
  auto tables = ram.allocate(table_count * abi::kPageBytes);
  if (!tables) return Failure(std::move(tables.error()));
  std::unique_ptr<PageDirectory> made(
      new PageDirectory(std::move(*directory), std::move(*tables), page_capacity));
  for (std::size_t t = 0; t < table_count; ++t) made->raw_directory()[t] = made->tables_->pages()[t].value;
  return made;
}

Result<std::unique_ptr<PageDirectory>> PageDirectory::of(GuestRam& ram, std::span<const GuestPhys> pages) {
  auto made = create(ram, pages.size());
  if (made) (*made)->assign(pages);
  return made;
}

void PageDirectory::set(std::size_t index, GuestPhys page) {
  PVRDMA_CHECK(index < capacity_, "entry beyond the page directory");
  std::uint64_t& entry = reinterpret_cast<std::uint64_t*>(tables_->data())[index];
  std::atomic_ref(entry).store(page.value, std::memory_order_relaxed);
}

void PageDirectory::assign(std::span<const GuestPhys> pages) {
  for (std::size_t i = 0; i < pages.size(); ++i) set(i, pages[i]);
}

std::span<std::uint64_t> PageDirectory::raw_directory() {
  return {reinterpret_cast<std::uint64_t*>(directory_->data()), kEntriesPerTable};
}

}  // namespace pvrdma::driver
