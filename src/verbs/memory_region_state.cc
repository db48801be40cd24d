// Saving and loading of MemoryRegionTable (ADR 16).
#include <algorithm>
#include <utility>

#include "guestmem/paged_range.h"
#include "verbs/memory_region.h"
#include "verbs/memory_region_impl.h"

namespace pvrdma::verbs {
namespace {

constexpr std::uint32_t generation_of(std::uint32_t key) {
  return key >> (kVariantBits + kSlotBits);
}

guestmem::PageList list_of(const std::vector<std::uint64_t>& pages, std::pmr::memory_resource& lists) {
  guestmem::PageList list(lists);
  list.reserve(static_cast<std::uint32_t>(pages.size()));
  for (const std::uint64_t page : pages) list.append(guestmem::GuestPhys(page));
  return list;
}

}  // namespace

SavedMrSlots MemoryRegionTable::save_slots() const {
  // Dropped regions are not saved. The counts follow from the regions.
  const auto& [limits, memory, account, lists, slots, oldest_free, newest_free, dropped, count, counts] =
      *this;
  SavedMrSlots saved;
  saved.generations.reserve(slots.size());
  for (const Slot& slot : slots) saved.generations.push_back(slot.generation);
  saved.free.reserve(slots.size() - 1 - count);
  for (std::uint32_t slot = oldest_free; slot != 0; slot = slots[slot].next_free) saved.free.push_back(slot);
  return saved;
}

SavedMr MemoryRegionTable::save(const Region& region) {
  // Loans have ended before the save.
  const auto& [kind, valid, key, access_flags, pd, held, fast_register_pages, uses, range, spare] = region;
  SavedMr saved{.key = key,
                .kind = kind,
                .valid = valid,
                .access_flags = access_flags,
                .pd = pd,
                .fast_register_pages = fast_register_pages,
                .start = range.start(),
                .length = range.length(),
                .pages = {}};
  saved.pages.reserve(range.page_count());
  for (const guestmem::GuestPhys page : range.pages().from(0, range.page_count()))
    saved.pages.push_back(page.value);
  return saved;
}

bool MemoryRegionTable::restore_slots(const SavedMrSlots& saved) {
  const auto& [generations, free] = saved;
  const std::size_t slots_max = std::size_t{std::min(limits_.max_mr, kSlotCount - 1)} + 1;
  if (generations.empty() || generations.size() > slots_max || free.size() >= generations.size())
    return false;
  slots_.resize(generations.size());
  for (std::size_t slot = 0; slot < generations.size(); ++slot) {
    if (generations[slot] > kGenerationMask) return false;
    slots_[slot].generation = generations[slot];
  }
  for (const std::uint32_t slot : free) {
    const bool is_new =
        slot != 0 && slot < slots_.size() && slots_[slot].next_free == 0 && slot != newest_free_;
    if (!is_new) return false;
    (newest_free_ == 0 ? oldest_free_ : slots_[newest_free_].next_free) = slot;
    newest_free_ = slot;
  }
  return true;
}

bool MemoryRegionTable::restore(const SavedMr& saved, bool is_kernel) {
  const auto& [key, kind, valid, access_flags, pd, fast_register_pages, start, length, pages] = saved;
  const std::uint32_t slot = slot_of(key);
  if (slot == 0 || slot >= slots_.size() || slots_[slot].region != nullptr) return false;
  if (slots_[slot].generation != ((generation_of(key) + 1) & kGenerationMask)) return false;
  const bool rights_ok = kind == MrKind::kUser || is_kernel;
  const bool access_ok = (access_flags & ~abi::kAccessMask) == 0 &&
                         (kind != MrKind::kDma || (access_flags & kRemoteAccess) == 0);
  const bool key_ok = kind == MrKind::kFastRegister || ((key & kVariantMask) == 0 && valid);
  if (!rights_ok || !access_ok || !key_ok) return false;

  auto region = std::make_unique<Region>(lists_);
  region->kind = kind;
  region->valid = valid;
  region->key = key;
  region->access_flags = access_flags;
  region->pd = pd;
  if (!fill(*region, saved)) return false;
  slots_[slot].region = std::move(region);
  ++count_;
  ++counts_[pd];
  return true;
}

// Charges the budget and sets the range.
bool MemoryRegionTable::fill(Region& region, const SavedMr& saved) {
  const auto page_count = static_cast<std::uint32_t>(saved.pages.size());
  switch (saved.kind) {
    case MrKind::kDma:
      return saved.length == 0 && page_count == 0 && saved.fast_register_pages == 0 && charge(region, 0);

    case MrKind::kFastRegister: {
      const std::uint32_t most = saved.fast_register_pages;
      if (most == 0 || most > kFastRegisterPagesMax || page_count > most || !charge(region, 2 * most))
        return false;
      region.reserve_fast_register(most, lists_);
      for (const std::uint64_t page : saved.pages) region.spare.append(guestmem::GuestPhys(page));
      return region.range.assign(saved.start, saved.length, region.spare);
    }

    case MrKind::kUser: {
      if (saved.fast_register_pages != 0 || saved.length == 0 || saved.length > limits_.max_mr_bytes ||
          guestmem::pages_spanned(saved.start, saved.length) != page_count || !charge(region, page_count))
        return false;
      guestmem::PageList list = list_of(saved.pages, lists_);
      return region.range.assign(saved.start, saved.length, list);
    }
  }
  return false;
}

bool MemoryRegionTable::is_whole() const {
  std::size_t free_count = 0;
  for (std::uint32_t slot = oldest_free_; slot != 0; slot = slots_[slot].next_free) {
    if (slots_[slot].region != nullptr) return false;
    ++free_count;
  }
  return free_count + count_ + 1 == slots_.size();
}

}  // namespace pvrdma::verbs
