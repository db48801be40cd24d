#include "driver/mapped_areas.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>

#include "abi/layout.h"

namespace pvrdma::driver {
namespace {

using vfio_user::MmapArea;

constexpr std::size_t kWord = sizeof(std::uint32_t);

std::string text_of(const MmapArea& area) {
  return fmt::format("an area of {:#x} bytes at {:#x}", area.size, area.offset);
}

Failure wrong(const MmapArea& area, std::string_view why) {
  return fail(EPROTO, fmt::format("the device lets {} be mapped, {}", text_of(area), why));
}

bool overlap(const MmapArea& a, const MmapArea& b) {  // neither wraps
  return a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

Result<> check(const vfio_user::RegionInfo& info, const MmapArea& area) {
  if (area.size == 0 || area.size % abi::kPageBytes != 0 || area.offset % abi::kPageBytes != 0)
    return wrong(area, "which is not whole pages");
  if (area.offset > info.size || area.size > info.size - area.offset)
    return wrong(area, fmt::format("outside its region of {:#x} bytes", info.size));
  for (const MmapArea& other : info.mmap_areas) {
    if (&other != &area && overlap(area, other))
      return wrong(area, "and " + text_of(other) + ", which overlap");
  }
  return {};
}

// Checks that the device's memory extends to the end of each area. An access beyond it would kill this
// process.
Result<> check_memory(const vfio_user::RegionInfo& info, int fd) {
  struct stat status {};
  if (fd < 0) return fail(EPROTO, "the device lets areas be mapped, but sent no descriptor of their memory");
  if (::fstat(fd, &status) != 0) return fail_errno(errno, "looking at the memory that the device lets map");
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  for (const MmapArea& area : info.mmap_areas) {
    if (info.fd_offset > bytes || area.offset + area.size > bytes - info.fd_offset) {
      return wrong(area, fmt::format("but the memory behind it ends first: it has {:#x} bytes, of which the "
                                     "region begins at {:#x}",
                                     bytes, info.fd_offset));
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<MappedAreas>> MappedAreas::create(const vfio_user::RegionInfo& info, int fd) {
  std::unique_ptr<MappedAreas> made(new MappedAreas);
  if (info.mmap_areas.empty()) return made;
  if (!info.readable || !info.writable) {
    return fail(EPROTO, "the device lets areas be mapped of a region that may not be read and written");
  }
  if (info.fd_offset % abi::kPageBytes != 0) {
    return fail(EPROTO, fmt::format("the device's memory begins at {:#x}, not at a page", info.fd_offset));
  }
  for (const MmapArea& area : info.mmap_areas) {
    if (auto good = check(info, area); !good) return Failure(std::move(good.error()));
  }
  if (auto good = check_memory(info, fd); !good) return Failure(std::move(good.error()));
  for (const MmapArea& area : info.mmap_areas) {
    void* data = ::mmap(nullptr, area.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                        static_cast<off_t>(info.fd_offset + area.offset));
    if (data == MAP_FAILED) return fail_errno(errno, "mapping " + text_of(area));
    made->mappings_.push_back({area, static_cast<std::byte*>(data)});
  }
  return made;
}

MappedAreas::~MappedAreas() {
  for (const Mapping& mapping : mappings_) ::munmap(mapping.data, mapping.area.size);
}

bool MappedAreas::write(std::uint64_t offset, std::span<const std::byte> data) const {
  std::byte* to = find(offset, data.size());
  if (to == nullptr) return false;
  for (std::size_t at = 0; at < data.size();) {
    if ((offset + at) % kWord == 0 && data.size() - at >= kWord) {
      std::uint32_t value = 0;
      std::memcpy(&value, data.data() + at, kWord);
      std::atomic_ref(*reinterpret_cast<std::uint32_t*>(to + at)).store(value, std::memory_order_release);
      at += kWord;
    } else {
      std::atomic_ref(to[at]).store(data[at], std::memory_order_release);
      ++at;
    }
  }
  return true;
}

bool MappedAreas::read(std::uint64_t offset, std::span<std::byte> out) const {
  std::byte* from = find(offset, out.size());
  if (from == nullptr) return false;
  for (std::size_t at = 0; at < out.size();) {
    if ((offset + at) % kWord == 0 && out.size() - at >= kWord) {
      const std::uint32_t value =
          std::atomic_ref(*reinterpret_cast<std::uint32_t*>(from + at)).load(std::memory_order_acquire);
      std::memcpy(out.data() + at, &value, kWord);
      at += kWord;
    } else {
      out[at] = std::atomic_ref(from[at]).load(std::memory_order_acquire);
      ++at;
    }
  }
  return true;
}

// Where the bytes are mapped; null if they do not all lie in one area.
std::byte* MappedAreas::find(std::uint64_t offset, std::size_t bytes) const {
  for (const Mapping& mapping : mappings_) {
    const MmapArea& area = mapping.area;
    if (offset < area.offset || offset - area.offset >= area.size) continue;
    return bytes <= area.size - (offset - area.offset) ? mapping.data + (offset - area.offset) : nullptr;
  }
  return nullptr;
}

}  // namespace pvrdma::driver
