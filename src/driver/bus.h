// Bus: how a driver accesses its adapter: BARs, DMA windows, interrupts, reset. It is to the driver what a
// PCI bus is to a kernel driver.
//
// VfioUserBus (vfio_user_bus.h) is the real one; tests/support/in_process_bus.h calls a device in the same
// thread. Accesses are acknowledged: when a write returns, the device has executed it (docs/device.md 1.4,
// 5). If the device lets its client map a region, accesses to it are loads and stores instead
// (mapped_areas.h). No function allocates when it succeeds, and region_write32() is the only one on the data
// path.
//
// Thread: one thread at a time; each call blocks until the device has answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace pvrdma::driver {

// Region numbers of the adapter as VFIO counts them: BAR 0, 1, 2 and the configuration space.
enum class Region : std::uint32_t { kMsix = 0, kRegisters = 1, kUar = 2, kConfig = 7 };

class Bus {
 public:
  virtual ~Bus() = default;

  // One aligned 32-bit access, `offset` in bytes from the region's start. Errors: the device refuses the
  // access, or the connection is lost.
  virtual Result<std::uint32_t> region_read32(Region region, std::uint64_t offset) = 0;
  virtual Result<> region_write32(Region region, std::uint64_t offset, std::uint32_t value) = 0;

  // Accesses of any width, for the configuration space and for drivers that misbehave on purpose.
  virtual Result<> region_read(Region region, std::uint64_t offset, std::span<std::byte> out) = 0;
  virtual Result<> region_write(Region region, std::uint64_t offset, std::span<const std::byte> data) = 0;

  // Size of a region in bytes; 0 = absent.
  virtual Result<std::uint64_t> region_bytes(Region region) = 0;

  // Lets the device read and write [iova, iova + bytes), which is [fd_offset, fd_offset + bytes) of `fd`. All
  // are multiples of 4096. `fd` is borrowed for the call; -1 announces a range that is not memory.
  virtual Result<> dma_map(std::uint64_t iova, std::uint64_t bytes, int fd, std::uint64_t fd_offset) = 0;

  // Removes exactly one mapped range. When it returns, the device no longer accesses the range.
  virtual Result<> dma_unmap(std::uint64_t iova, std::uint64_t bytes) = 0;

  // Makes the device interrupt by adding 1 to the eventfd, which is borrowed for the call. -1 unassigns the
  // vector.
  virtual Result<> set_vector_eventfd(std::uint32_t vector, int eventfd) = 0;
  virtual Result<> disable_vectors() = 0;

  // Function-level reset: the device returns to its power-on state, but keeps its DMA windows.
  virtual Result<> reset() = 0;
};

}  // namespace pvrdma::driver
