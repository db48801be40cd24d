// MemoryRegionTable's regions, and how their keys are composed. Included by memory_region*.cc only.
// Thread: shard-owned.
#pragma once

#include "abi/attributes.h"
#include "base/check.h"
#include "verbs/memory_region.h"

namespace pvrdma::verbs {

inline constexpr std::uint32_t kVariantBits = 8;
inline constexpr std::uint32_t kSlotBits = 18;
inline constexpr std::uint32_t kGenerationBits = 6;
static_assert(kVariantBits + kSlotBits + kGenerationBits == 32);

inline constexpr std::uint32_t kSlotCount = 1u << kSlotBits;
inline constexpr std::uint32_t kGenerationMask = (1u << kGenerationBits) - 1;
inline constexpr std::uint32_t kVariantMask = (1u << kVariantBits) - 1;

inline constexpr std::uint32_t kRemoteAccess =
    abi::kAccessRemoteWrite | abi::kAccessRemoteRead | abi::kAccessRemoteAtomic;

constexpr std::uint32_t slot_of(std::uint32_t key) {
  return (key >> kVariantBits) & (kSlotCount - 1);
}
constexpr std::uint32_t first_key(std::uint32_t slot, std::uint8_t generation) {
  return std::uint32_t{generation} << (kVariantBits + kSlotBits) | slot << kVariantBits;
}

struct MemoryRegionTable::Region {
  explicit Region(std::pmr::memory_resource& lists) : spare(lists) {}

  MrKind kind{};
  bool valid = false;     // kFastRegister: registered and not invalidated
  std::uint32_t key = 0;  // the only valid value at present
  std::uint32_t access_flags = 0;
  PdHandle pd;
  Account::Holding held;  // the region and its pages
  std::uint32_t fast_register_pages = 0;
  std::uint32_t uses = 0;      // loans that name it
  guestmem::PagedRange range;  // unused for kDma, whose addresses are guest-physical
  guestmem::PageList spare;    // kFastRegister: each registration swaps it with the range's list

  // Allocates both lists now, so that no registration allocates. A range cannot hold an empty list, so it
  // gets one page. That page is never resolved, because the region is not valid.
  void reserve_fast_register(std::uint32_t page_count, std::pmr::memory_resource& lists) {
    fast_register_pages = page_count;
    guestmem::PageList first(lists);
    first.reserve(page_count);
    first.append(guestmem::GuestPhys(0));
    PVRDMA_CHECK(range.assign(0, 1, first), "one page is enough for a range of one byte");
    spare.reserve(page_count);
  }
};

}  // namespace pvrdma::verbs
