#include "verbs/memory_region.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "abi/attributes.h"
#include "base/check.h"
#include "verbs/memory_region_impl.h"

namespace pvrdma::verbs {
namespace {

using guestmem::GuestPhys;

// The kind of access to guest memory.
guestmem::Access memory_access(AccessNeed need) {
  switch (need.flag) {
    case abi::kAccessLocalWrite:
    case abi::kAccessRemoteWrite:
      return guestmem::Access::kWrite;
    case abi::kAccessRemoteAtomic:
      return guestmem::Access::kReadWrite;
    default:
      return guestmem::Access::kRead;
  }
}

}  // namespace

MemoryRegionTable::MemoryRegionTable(const Limits& limits, const guestmem::AddressSpace& memory,
                                     Account& account)
    : limits_(limits), memory_(memory), account_(account), slots_(1) {}

MemoryRegionTable::~MemoryRegionTable() = default;

Outcome<MrKeys> MemoryRegionTable::create(const CreateMr& request) {
  if (count_ >= std::min(limits_.max_mr, kSlotCount - 1)) {
    account_.table_full(Budget::kMrs);
    return refuse(CommandError::kNoMemory);
  }
  Outcome<std::unique_ptr<Region>> region = make_region(request);
  if (!region) return refuse(region.error());

  // Everything that allocates comes before the first change.
  const auto [owned, first_of_pd] = counts_.try_emplace(request.pd, 0);
  std::optional<std::uint32_t> taken;
  try {
    taken = take_slot();
  } catch (...) {
    if (first_of_pd) counts_.erase(owned);
    throw;
  }
  const std::uint32_t slot = *taken;
  Slot& place = slots_[slot];
  (*region)->key = first_key(slot, place.generation);
  place.generation = static_cast<std::uint8_t>((place.generation + 1u) & kGenerationMask);
  place.region = std::move(*region);
  ++count_;
  ++owned->second;
  const std::uint32_t key = place.region->key;
  return MrKeys{MrHandle(key >> kVariantBits), key};
}

Outcome<std::unique_ptr<MemoryRegionTable::Region>> MemoryRegionTable::make_region(const CreateMr& request) {
  auto region = std::make_unique<Region>(lists_);
  region->kind = request.kind;
  region->pd = request.pd;
  region->access_flags = request.access_flags & abi::kAccessMask;
  if (request.kind != MrKind::kUser && (region->access_flags & kRemoteAccess) != 0)
    return refuse(CommandError::kInvalid);

  switch (request.kind) {
    case MrKind::kDma:
      if (!charge(*region, 0)) return refuse(CommandError::kNoMemory);
      region->valid = true;
      return region;

    case MrKind::kFastRegister:
      if (request.page_count == 0 || request.page_count > kFastRegisterPagesMax)
        return refuse(CommandError::kInvalid);
      // Both page lists count: a registration reads into one while the other holds the previous pages.
      if (!charge(*region, 2 * request.page_count)) return refuse(CommandError::kNoMemory);
      region->reserve_fast_register(request.page_count, lists_);
      return region;

    case MrKind::kUser:
      break;
  }

  if (request.length == 0 || request.length > limits_.max_mr_bytes ||
      guestmem::pages_spanned(request.start, request.length) != request.page_count ||
      request.page_count > guestmem::kMaxDirectoryPages)
    return refuse(CommandError::kInvalid);
  if (!charge(*region, request.page_count)) return refuse(CommandError::kNoMemory);
  guestmem::PageList pages(lists_);
  const guestmem::DirectoryStatus status = guestmem::read_page_directory(
      memory_, GuestPhys(request.page_directory), request.page_count, guestmem::kMaxDirectoryPages, pages);
  if (status != guestmem::DirectoryStatus::kOk) return refuse(CommandError::kBadAddress);
  if (!region->range.assign(request.start, request.length, pages)) return refuse(CommandError::kInvalid);
  region->valid = true;
  return region;
}

bool MemoryRegionTable::charge(Region& region, std::uint32_t pages) {
  auto held = account_.take(Budget::kMrs, pages);
  if (!held) return false;
  region.held = *std::move(held);
  return true;
}

// Takes a slot for a new region; the caller has checked that one is free.
std::uint32_t MemoryRegionTable::take_slot() {
  const std::size_t slots_max = std::size_t{std::min(limits_.max_mr, kSlotCount - 1)} + 1;
  if (slots_.size() < slots_max) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t slot = oldest_free_;
  PVRDMA_CHECK(slot != 0, "a slot is free while the limit is not reached");
  oldest_free_ = std::exchange(slots_[slot].next_free, 0);
  if (oldest_free_ == 0) newest_free_ = 0;
  return slot;
}

// The caller updates counts_.
std::unique_ptr<MemoryRegionTable::Region> MemoryRegionTable::release(std::uint32_t slot) {
  --count_;
  (newest_free_ == 0 ? oldest_free_ : slots_[newest_free_].next_free) = slot;
  newest_free_ = slot;
  return std::move(slots_[slot].region);
}

Outcome<> MemoryRegionTable::destroy(MrHandle handle) {
  const std::uint32_t key = handle.value << kVariantBits;
  const Region* region = key >> kVariantBits == handle.value ? find(key) : nullptr;
  if (region == nullptr) return refuse(CommandError::kNoSuchObject);
  const auto owner = counts_.find(region->pd);
  if (--owner->second == 0) counts_.erase(owner);
  release(slot_of(key));
  return {};
}

std::uint32_t MemoryRegionTable::destroy_all_of(const std::unordered_set<PdHandle>& pds) {
  // There may be hundreds of thousands of MRs: a single pass with prefetches.
  constexpr std::size_t kAhead = 16;
  const std::uint32_t before = count_;
  PdHandle last_pd;
  bool last_gone = false;
  dropped_.reserve(dropped_.size() + count_);
  for (std::uint32_t slot = 1; slot < slots_.size(); ++slot) {
    if (slot + kAhead < slots_.size()) __builtin_prefetch(slots_[slot + kAhead].region.get());
    const Region* region = slots_[slot].region.get();
    if (region == nullptr) continue;
    if (region->pd != last_pd) last_gone = pds.contains(last_pd = region->pd);
    if (last_gone) dropped_.push_back(release(slot));
  }
  for (const PdHandle pd : pds) counts_.erase(pd);
  return before - count_;
}

void MemoryRegionTable::destroy_all() {
  for (std::uint32_t slot = 1; slot < slots_.size(); ++slot) {
    if (slots_[slot].region != nullptr) release(slot);
  }
  counts_.clear();
}

void MemoryRegionTable::bury_one(std::unique_ptr<Region> region, std::uint32_t& budget) {
  constexpr std::uint32_t kPagesPerUnit = 512;
  budget -= std::min(budget, 1 + region->range.page_count() / kPagesPerUnit);
}

void MemoryRegionTable::bury_dropped(std::uint32_t& budget) {
  for (; !dropped_.empty() && budget != 0; dropped_.pop_back()) bury_one(std::move(dropped_.back()), budget);
}

void MemoryRegionTable::bury_all(std::uint32_t& budget) {
  bury_dropped(budget);
  for (; !slots_.empty() && budget != 0; slots_.pop_back()) {
    if (slots_.back().region != nullptr) bury_one(std::move(slots_.back().region), budget);
  }
  if (slots_.empty() && dropped_.empty()) lists_.give_back(budget);
}

// The region that `key` names, whatever its variant byte.
MemoryRegionTable::Region* MemoryRegionTable::find(std::uint32_t key) const {
  const std::uint32_t slot = slot_of(key);
  if (slot >= slots_.size()) return nullptr;
  Region* region = slots_[slot].region.get();
  return region != nullptr && (region->key ^ key) <= kVariantMask ? region : nullptr;
}

// All checks except the one of the memory itself, in the order key, PD, bounds, permission. `region` may be
// null; `length` is not 0. Inlined because each message runs it twice.
[[gnu::always_inline]] inline KeyFault MemoryRegionTable::may_use(const Region* region, std::uint32_t key,
                                                                  PdHandle pd, std::uint64_t addr,
                                                                  std::uint64_t length, AccessNeed need) {
  if (region == nullptr || region->key != key || !region->valid) return KeyFault::kBadKey;
  const bool is_dma = region->kind == MrKind::kDma;
  if (need.remote && is_dma) return KeyFault::kBadKey;
  if (region->pd != pd) return KeyFault::kWrongPd;
  if (is_dma ? length - 1 > UINT64_MAX - addr : !region->range.contains(addr, length))
    return KeyFault::kOutOfBounds;
  const bool free_of_rights = need.flag == 0 && !need.remote;
  if (!free_of_rights && (need.flag == 0 || (region->access_flags & need.flag) != need.flag))
    return KeyFault::kNoPermission;
  return KeyFault::kNone;
}

KeyFault MemoryRegionTable::check(std::uint32_t key, PdHandle pd, std::uint64_t addr, std::uint64_t length,
                                  AccessNeed need) const {
  return length == 0 ? KeyFault::kNone : may_use(find(key), key, pd, addr, length, need);
}

KeyFault MemoryRegionTable::resolve(std::uint32_t key, PdHandle pd, std::uint64_t addr, std::uint64_t length,
                                    AccessNeed need, guestmem::SpanList& out) const {
  if (length == 0) return KeyFault::kNone;
  const Region* const region = find(key);
  const KeyFault fault = may_use(region, key, pd, addr, length, need);
  if (fault != KeyFault::kNone) return fault;
  const guestmem::Access access = memory_access(need);
  const bool is_dma = region->kind == MrKind::kDma;
  if (!is_dma) {
    std::byte* const host = region->range.translate_in_page(memory_, addr, length, access);
    if (host != nullptr && out.append(host, static_cast<std::size_t>(length))) return KeyFault::kNone;
  }
  const guestmem::SpanList::Mark before = out.mark();
  const guestmem::Resolved resolved = is_dma ? memory_.translate_pieces(GuestPhys(addr), length, access, out)
                                             : region->range.resolve(memory_, addr, length, access, out);
  switch (resolved) {
    case guestmem::Resolved::kAll:
      return KeyFault::kNone;
    case guestmem::Resolved::kListFull:
    case guestmem::Resolved::kFault:
      break;
  }
  out.rewind(before);
  return KeyFault::kNotMapped;
}

MemoryRegionTable::Region* MemoryRegionTable::find_fast_register(std::uint32_t key, PdHandle pd) const {
  Region* region = find(key);
  return region != nullptr && region->kind == MrKind::kFastRegister && region->pd == pd ? region : nullptr;
}

bool MemoryRegionTable::fast_register(const FastRegister& request) {
  Region* region = find_fast_register(request.key, request.pd);
  if (region == nullptr || region->valid || request.page_shift != 12) return false;
  const guestmem::DirectoryStatus status =
      guestmem::read_page_directory(memory_, GuestPhys(request.page_directory), request.page_count,
                                    region->fast_register_pages, region->spare);
  if (status != guestmem::DirectoryStatus::kOk) return false;
  if (!region->range.assign(request.iova_start, request.length, region->spare)) return false;
  region->key = request.key;
  region->access_flags = request.access_flags & abi::kAccessMask;
  region->valid = true;
  return true;
}

void MemoryRegionTable::add_use(std::uint32_t key) {
  if (Region* const region = find(key); region != nullptr) ++region->uses;
}

void MemoryRegionTable::drop_use(std::uint32_t key) {
  if (Region* const region = find(key); region != nullptr && region->uses != 0) --region->uses;
}

std::uint32_t MemoryRegionTable::uses(std::uint32_t key) const {
  const Region* const region = find(key);
  return region == nullptr ? 0 : region->uses;
}

std::uint32_t MemoryRegionTable::uses(MrHandle handle) const {
  return uses(handle.value << kVariantBits);
}

bool MemoryRegionTable::invalidate(std::uint32_t key, PdHandle pd) {
  Region* region = find_fast_register(key, pd);
  if (region == nullptr || !region->valid || region->key != key) return false;
  region->valid = false;
  return true;
}

}  // namespace pvrdma::verbs
