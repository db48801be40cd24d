#include "guestmem/address_space.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <iterator>
#include <new>
#include <sys/mman.h>
#include <utility>

#include "guestmem/host_mapping.h"

namespace pvrdma::guestmem {
namespace {

bool is_page_aligned(std::uint64_t value) {
  return value % kPageBytes == 0;
}

std::string describe(GuestPhys iova, std::uint64_t size) {
  return fmt::format("DMA map of {:#x} bytes at {:#x}", size, iova.value);
}

}  // namespace

AddressSpace::AddressSpace(std::shared_ptr<ReaperQueue> reaper, std::shared_ptr<MappedMemory> account)
    : reaper_(std::move(reaper)),
      account_(account != nullptr
                   ? std::move(account)
                   : std::make_shared<MappedMemory>("one address space", "", MappedMemory::Limits{})) {}

AddressSpace::~AddressSpace() {
  unmap_all();
}

Result<> AddressSpace::map(GuestPhys iova, std::uint64_t size, const Fd& fd, std::uint64_t fd_offset,
                           bool readable, bool writable) {
  const auto refuse = [&](int code, std::string_view why) {
    return fail(code, fmt::format("{}: {}", describe(iova, size), why));
  };
  if (size == 0 || !is_page_aligned(size) || !is_page_aligned(iova.value))
    return refuse(EINVAL, "address and size must be multiples of 4096, and the size must not be 0");
  if (size > kMaxMapBytes) return refuse(EINVAL, "larger than any guest's memory");
  if (iova.value + size < iova.value) return refuse(EINVAL, "it wraps around the end of the address space");

  const std::size_t at = first_ending_after(iova.value);
  if (at < regions_.size() && regions_[at].begin < iova.value + size)
    return refuse(EEXIST, fmt::format("it overlaps the map at {:#x}", regions_[at].begin));
  if (regions_.size() == kMaxMaps) return refuse(ENOSPC, "there are 65535 maps already");

  Region region{iova.value, iova.value + size, nullptr, 0, 0, nullptr, nullptr};
  if (fd) {
    if (!readable && !writable) return refuse(EINVAL, "neither readable nor writable");
    if (!is_page_aligned(fd_offset)) return refuse(EINVAL, "the file offset must be a multiple of 4096");
    if (ram_map_count_ == kMaxRamMaps)
      return refuse(ENOSPC,
                    fmt::format("there are {} maps of memory already (boot a guest that has a virtual "
                                "IOMMU with iommu=pt, give a virtio-mem device a larger block-size)",
                                kMaxRamMaps));
    const int protection = (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0);
    auto mapping = HostMapping::create(fd, fd_offset, size, protection, damaged_, account_);
    if (!mapping) return Failure(std::move(mapping.error()).in(describe(iova, size)));
    region.host = (*mapping)->data();
    region.rights = static_cast<std::uint8_t>((readable ? static_cast<int>(Access::kRead) : 0) |
                                              (writable ? static_cast<int>(Access::kWrite) : 0));
    region.rights_unlogged = region.rights;
    region.mapping = *std::move(mapping);
  }
  if (auto inserted = insert(at, std::move(region)); !inserted)
    return Failure(std::move(inserted).error().in(describe(iova, size)));
  return {};
}

Result<> AddressSpace::insert(std::size_t at, Region region) {
  try {
    if (regions_.size() == regions_.capacity())
      regions_.reserve(std::max<std::size_t>(16, 2 * regions_.size()));
  } catch (const std::bad_alloc&) {
    give_up(region);
    return fail_errno(ENOMEM, "recording it");
  }
  if (region.mapping != nullptr) {
    ++ram_map_count_;
    ram_bytes_ += region.end - region.begin;
  }
  regions_.insert(regions_.begin() + static_cast<std::ptrdiff_t>(at), std::move(region));
  changed();
  if (log_ != nullptr) log_new_region(at);
  return {};
}

void AddressSpace::changed() {
  ++generation_;
  last_hit_ = nullptr;
}

// The engine cannot reach the region any more, so the reaper may take its time.
void AddressSpace::give_up(Region& region) {
  if (region.mapping == nullptr) return;
  if (watcher_ != nullptr && region.host != nullptr)
    watcher_->on_unmapping({region.host, region.end - region.begin});
  region.mapping->disown();
  if (reaper_ != nullptr) reaper_->release(std::move(region.mapping));
  region.mapping.reset();
}

int AddressSpace::unmap(GuestPhys iova, std::uint64_t size) {
  const auto first = regions_.begin() + static_cast<std::ptrdiff_t>(first_ending_after(iova.value));
  const auto last = std::partition_point(first, regions_.end(),
                                         [&](const Region& r) { return r.begin < iova.value + size; });
  if (first == last) return ENOENT;
  if (first->begin < iova.value || std::prev(last)->end > iova.value + size) return EINVAL;
  for (auto region = first; region != last; ++region) {
    if (region->mapping != nullptr) {
      --ram_map_count_;
      ram_bytes_ -= region->end - region->begin;
    }
    give_up(*region);
  }
  regions_.erase(first, last);
  changed();
  return 0;
}

void AddressSpace::unmap_all() {
  for (Region& region : regions_) give_up(region);
  regions_.clear();
  ram_map_count_ = 0;
  ram_bytes_ = 0;
  changed();
  damaged_.store(false, std::memory_order_relaxed);
}

void AddressSpace::for_each_ram(const std::function<void(const RamRange&)>& visit) const {
  if (damaged()) return;
  for (const Region& region : regions_) {
    if (region.mapping == nullptr) continue;
    visit({.memory = {region.host, region.end - region.begin},
           .is_writable = region.allows(Access::kWrite),
           .hold = region.mapping->hold()});
  }
}

Resolved AddressSpace::translate_pieces(GuestPhys gpa, std::uint64_t length, Access access,
                                        SpanList& out) const {
  const SpanList::Mark before = out.mark();
  bool full = false;
  const bool complete = for_each_piece(gpa, length, access, [&](std::byte* data, std::size_t size) {
    full = !out.append(data, size);
    return !full;
  });
  if (complete) return Resolved::kAll;
  if (full) return Resolved::kListFull;
  out.rewind(before);
  return Resolved::kFault;
}

std::byte* AddressSpace::Cursor::enter(GuestPhys gpa, std::uint64_t length) {
  const Region* region = memory_.find(gpa.value);
  if (region == nullptr) return nullptr;
  if (region->allows_unlogged(access_)) {
    begin_ = region->begin;
    size_ = region->end - region->begin;
    host_ = region->host;
  } else if (region->allows(access_)) {
    logged_ = region;
  }
  return memory_.translate(gpa, length, access_);
}

const AddressSpace::Region* AddressSpace::search(std::uint64_t address) const {
  const std::size_t at = first_ending_after(address);
  if (at == regions_.size() || !regions_[at].contains(address)) return nullptr;
  return last_hit_ = &regions_[at];
}

std::size_t AddressSpace::first_ending_after(std::uint64_t address) const {
  const auto found = std::partition_point(regions_.begin(), regions_.end(),
                                          [address](const Region& r) { return r.end <= address; });
  return static_cast<std::size_t>(found - regions_.begin());
}

}  // namespace pvrdma::guestmem
