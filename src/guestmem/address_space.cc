#include "guestmem/address_space.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
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

AddressSpace::AddressSpace() = default;
AddressSpace::~AddressSpace() = default;

Result<> AddressSpace::map(GuestPhys iova, std::uint64_t size, Fd fd, std::uint64_t fd_offset, bool readable,
                           bool writable) {
  const auto refuse = [&](int code, std::string_view why) {
    return fail(code, fmt::format("{}: {}", describe(iova, size), why));
  };
  if (size == 0 || !is_page_aligned(size) || !is_page_aligned(iova.value))
    return refuse(EINVAL, "address and size must be multiples of 4096, the size not 0");
  if (size > kMaxMapBytes) return refuse(EINVAL, "larger than any guest's memory");
  if (iova.value + size < iova.value) return refuse(EINVAL, "it wraps around the end of the address space");

  const std::size_t at = first_ending_after(iova.value);
  if (at < regions_.size() && regions_[at].begin < iova.value + size)
    return refuse(EEXIST, fmt::format("it overlaps the one at {:#x}", regions_[at].begin));
  if (regions_.size() == kMaxMaps) return refuse(ENOSPC, "there are 65535 maps already");

  Region region{iova.value, iova.value + size, nullptr, 0, nullptr};
  if (fd) {
    if (!readable && !writable) return refuse(EINVAL, "neither readable nor writable");
    if (!is_page_aligned(fd_offset)) return refuse(EINVAL, "the file offset must be a multiple of 4096");
    if (ram_map_count_ == kMaxRamMaps) return refuse(ENOSPC, "there are 512 maps of memory already");
    const int protection = (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0);
    auto mapping = HostMapping::create(fd, fd_offset, size, protection, damaged_);
    if (!mapping) return Failure(std::move(mapping.error()).in(describe(iova, size)));
    region.host = (*mapping)->data();
    region.rights = static_cast<std::uint8_t>((readable ? static_cast<int>(Access::kRead) : 0) |
                                              (writable ? static_cast<int>(Access::kWrite) : 0));
    region.mapping = *std::move(mapping);
    ++ram_map_count_;
  }
  regions_.insert(regions_.begin() + static_cast<std::ptrdiff_t>(at), std::move(region));
  ++generation_;
  return {};
}

int AddressSpace::unmap(GuestPhys iova, std::uint64_t size) {
  const std::size_t at = first_ending_after(iova.value);
  if (at == regions_.size() || regions_[at].begin != iova.value || regions_[at].end - iova.value != size)
    return ENOENT;
  if (regions_[at].host != nullptr) --ram_map_count_;
  regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(at));
  ++generation_;
  return 0;
}

void AddressSpace::unmap_all() {
  regions_.clear();
  ram_map_count_ = 0;
  ++generation_;
  damaged_.store(false, std::memory_order_relaxed);
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
  if (region == nullptr || !region->allows(access_)) return nullptr;
  begin_ = region->begin;
  size_ = region->end - region->begin;
  host_ = region->host;
  const std::uint64_t at = gpa.value - begin_;
  return length <= size_ - at ? host_ + at : nullptr;
}

const AddressSpace::Region* AddressSpace::search(std::uint64_t address) const {
  const std::size_t at = first_ending_after(address);
  if (at == regions_.size() || !regions_[at].contains(address)) return nullptr;
  last_hit_ = at;
  return &regions_[at];
}

std::size_t AddressSpace::first_ending_after(std::uint64_t address) const {
  const auto found = std::partition_point(regions_.begin(), regions_.end(),
                                          [address](const Region& r) { return r.end <= address; });
  return static_cast<std::size_t>(found - regions_.begin());
}

}  // namespace pvrdma::guestmem
