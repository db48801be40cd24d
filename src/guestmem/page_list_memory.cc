#include "guestmem/page_list_memory.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace pvrdma::guestmem {
namespace {

constexpr std::size_t kBlockBytesMin = 16;
// Longer lists have mappings of their own: the lists of MRs above 64 MiB. The bound also limits the number of
// mappings that a guest can cause; a process may have about 65,000.
constexpr std::size_t kBlockBytesMax = 128 << 10;
constexpr std::size_t kSharedBytesMin = 64 << 10;
constexpr std::size_t kBlocksPerMapping = 16;

// The bytes that one unit of a budget frees, in about a microsecond.
constexpr std::size_t kBytesPerUnit = 64 << 10;

constexpr std::size_t block_bytes_of(std::size_t size) {
  return kBlockBytesMin << size;
}
std::size_t size_of(std::size_t bytes) {
  return static_cast<std::size_t>(std::bit_width((std::max(bytes, kBlockBytesMin) - 1) / kBlockBytesMin));
}

}  // namespace

PageListMemory::~PageListMemory() {
  std::uint32_t all = std::numeric_limits<std::uint32_t>::max();
  give_back(all);
}

void PageListMemory::give_back(std::uint32_t& budget) {
  static_assert(block_bytes_of(kSizes - 1) == kBlockBytesMax);
  sizes_ = {};
  while (shared_ != nullptr && budget != 0) {
    Shared* const mapping = std::exchange(shared_, shared_->next);
    const std::size_t bytes = mapping->bytes;
    unmap(mapping, bytes);
    budget -= std::min(budget, static_cast<std::uint32_t>(1 + bytes / kBytesPerUnit));
  }
}

void* PageListMemory::do_allocate(std::size_t bytes, std::size_t /*alignment: 16 at most*/) {
  if (bytes > kBlockBytesMax) {
    void* const mapping = map(bytes);
    // The list of a region of 1 GiB fills one huge page: one page fault instead of 512 in the same command.
    // This is advice only.
    ::madvise(mapping, bytes, MADV_HUGEPAGE);
    return mapping;
  }
  Size& size = sizes_[size_of(bytes)];
  if (size.free != nullptr) return std::exchange(size.free, size.free->next);
  const std::size_t block_bytes = block_bytes_of(size_of(bytes));
  if (size.uncut == size.uncut_end) {
    const std::size_t blocks = std::max(kBlocksPerMapping, kSharedBytesMin / block_bytes);
    const std::size_t mapping_bytes = sizeof(Shared) + blocks * block_bytes;
    auto* const mapping = static_cast<std::byte*>(map(mapping_bytes));
    shared_ = ::new (mapping) Shared{shared_, mapping_bytes};
    size.uncut = mapping + sizeof(Shared);
    size.uncut_end = mapping + mapping_bytes;
  }
  return std::exchange(size.uncut, size.uncut + block_bytes);
}

void PageListMemory::do_deallocate(void* list, std::size_t bytes, std::size_t /*alignment*/) {
  if (bytes > kBlockBytesMax) {
    unmap(list, bytes);
    return;
  }
  Size& size = sizes_[size_of(bytes)];
  size.free = ::new (list) Block{size.free};
}

void* PageListMemory::map(std::size_t bytes) {
  void* const mapping = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  held_bytes_ += bytes;
  return mapping;
}

void PageListMemory::unmap(void* mapping, std::size_t bytes) {
  ::munmap(mapping, bytes);
  held_bytes_ -= bytes;
}

}  // namespace pvrdma::guestmem
