// MappedAreas: the parts of one region that the device lets its client map. An access inside such an area is
// loads and stores without a message. The device finds a store later, when it polls, and acknowledges
// nothing.
//
// Stores are releases, plain moves on x86: when the device sees a doorbell, it also sees the ring index that
// was written before. A later load is not ordered after a store, just as in a guest. Thread: one at a time;
// the other end is the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "vfio_user/handler.h"

namespace pvrdma::driver {

// How a bus uses the areas that its device offers. kTrapped: it ignores them, and each access is a message.
enum class AreaUse { kMapped, kTrapped };

class MappedAreas {
 public:
  // Maps all areas of `info` from `fd`. There may be no areas. `fd` is borrowed for the call; -1 means that
  // no fd came. Errors: EPROTO if the device's answer contradicts itself, otherwise mmap()'s errno.
  static Result<std::unique_ptr<MappedAreas>> create(const vfio_user::RegionInfo& info, int fd);

  ~MappedAreas();
  MappedAreas(const MappedAreas&) = delete;
  MappedAreas& operator=(const MappedAreas&) = delete;

  // Each returns false and does nothing if the bytes do not all lie in one area. `offset` is in bytes from
  // the region's start. Aligned words are accessed whole, in order of address.
  bool write(std::uint64_t offset, std::span<const std::byte> data) const;
  bool read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  struct Mapping {
    vfio_user::MmapArea area;
    std::byte* data;
  };

  MappedAreas() = default;
  std::byte* find(std::uint64_t offset, std::size_t bytes) const;

  std::vector<Mapping> mappings_;
};

}  // namespace pvrdma::driver
