// DmaWindow: memory of somebody else that the device may access, beside guest RAM. Its pages can be listed in
// page directories like those of guest RAM. Thread: the Device's.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "driver/guest_ram.h"

namespace pvrdma::driver {

class Device;

class DmaWindow {
 public:
  static constexpr std::uint64_t kBytesMax = 1ULL << 40;

  // Lets the device access [fd_offset, fd_offset + bytes) of `fd`, all multiples of 4096. `fd` is borrowed
  // for the call; `device` is borrowed and outlives the window. Errors: EINVAL (a size of 0 or above
  // kBytesMax), ENOMEM (too many windows), the device's refusal.
  static Result<std::unique_ptr<DmaWindow>> create(Device& device, int fd, std::uint64_t fd_offset,
                                                   std::uint64_t bytes);

  // When it returns, the device no longer accesses the memory.
  ~DmaWindow();
  DmaWindow(const DmaWindow&) = delete;
  DmaWindow& operator=(const DmaWindow&) = delete;

  GuestPhys base() const { return base_; }
  std::uint64_t size_bytes() const { return bytes_; }

 private:
  DmaWindow(Device& device, std::size_t number, std::uint64_t bytes);

  Device& device_;
  std::size_t number_;
  GuestPhys base_;
  std::uint64_t bytes_;
};

}  // namespace pvrdma::driver
