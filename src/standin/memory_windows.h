// MemoryWindows: the memory of one process that the device may access. Each window is a part of a memory file
// that the process sent, mapped by the daemon.
//
// A file must be sealed against shrinking, so that the process cannot take pages away from the daemon.
//
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "driver/dma_window.h"
#include "preload/wire.h"

namespace pvrdma::standin {

class MemoryWindows {
 public:
  // Borrowed; outlives the windows.
  explicit MemoryWindows(driver::Device& device) : device_(device) {}

  // Adds [offset, offset + bytes) of `fd`, borrowed for the call, and returns the window's number. Errors:
  // EINVAL (the file or the range is not as wire.h says), EMFILE (too many windows), or the device's.
  Result<std::uint64_t> add(int fd, std::uint64_t offset, std::uint64_t bytes);

  // The pages of `runs`, which must be `page_count`. EFAULT: a run leaves its window, or there are fewer or
  // more pages.
  Result<std::vector<driver::GuestPhys>> pages_of(std::span<const pvrdma_wire_run> runs,
                                                  std::uint64_t page_count) const;

  std::size_t size() const { return windows_.size(); }

 private:
  driver::Device& device_;
  std::vector<std::unique_ptr<driver::DmaWindow>> windows_;
};

}  // namespace pvrdma::standin
