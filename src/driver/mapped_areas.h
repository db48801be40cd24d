// MappedAreas: the parts of one region that the device lets its client map. An access inside one is loads and
// stores, no message: the device sees it when it looks, and acknowledges nothing.
//
// Stores are releases, plain moves on x86: whoever sees a doorbell sees the ring's index that was written
// before it. Nothing orders a later load after a store, as nothing does for a guest. Thread: one at a time;
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

// What a bus does with the areas that its device offers. kTrapped: ignores them, each access is a message.
enum class AreaUse { kMapped, kTrapped };

class MappedAreas {
 public:
  // Maps all areas of `info`, none of which may be there, from `fd` (borrowed for the call; -1 = none came).
  // Errors: EPROTO when the device's answer contradicts itself, else what mmap said.
  static Result<std::unique_ptr<MappedAreas>> create(const vfio_user::RegionInfo& info, int fd);

  ~MappedAreas();
  MappedAreas(const MappedAreas&) = delete;
  MappedAreas& operator=(const MappedAreas&) = delete;

  // False, and nothing is done, when the bytes do not all lie in one area. `offset` in bytes from the
  // region's start. Aligned words are accessed whole, in order of address.
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
