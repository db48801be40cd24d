#include "guestmem/page_list_memory.h"

#include <algorithm>
#include <limits>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace pvrdma::guestmem {
namespace {

// Longer lists have mappings of their own: of MRs above 64 MiB. The bound also bounds how many mappings a
// guest can make, of which a process has about 65,000.
constexpr std::size_t kSharedBytesMax = 128 << 10;
constexpr std::size_t kListsPerMappingMax = 16;

// What giving back one unit of a budget frees, in about a microsecond.
constexpr std::size_t kBytesPerUnit = 64 << 10;

}  // namespace

PageListMemory::PageListMemory() : pool_({kListsPerMappingMax, kSharedBytesMax}, &mappings_) {}

void PageListMemory::give_back(std::uint32_t& budget) {
  mappings_.put_off = true;
  pool_.release();
  mappings_.put_off = false;
  mappings_.unmap_some(budget);
}

PageListMemory::Mappings::~Mappings() {
  std::uint32_t all = std::numeric_limits<std::uint32_t>::max();
  unmap_some(all);
}

void PageListMemory::Mappings::unmap_some(std::uint32_t& budget) {
  while (waiting_ != nullptr && budget != 0) {
    Waiting* block = std::exchange(waiting_, waiting_->next);
    const std::size_t size = block->size;
    ::munmap(block, size);
    bytes -= size;
    budget -= std::min(budget, static_cast<std::uint32_t>(1 + size / kBytesPerUnit));
  }
}

void* PageListMemory::Mappings::do_allocate(std::size_t size, std::size_t /*alignment: at most a page*/) {
  void* block = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();
  bytes += size;
  return block;
}

void PageListMemory::Mappings::do_deallocate(void* block, std::size_t size, std::size_t /*alignment*/) {
  if (put_off) {
    waiting_ = ::new (block) Waiting{waiting_, size};
    return;
  }
  ::munmap(block, size);
  bytes -= size;
}

}  // namespace pvrdma::guestmem
