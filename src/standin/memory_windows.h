// MemoryWindows: the memory of one process that the device may access. Each window is a part of a memory file
// that the process sent, mapped by the daemon.
//
// A process that makes its file smaller can stop the adapter for its other processes. So where those may be
// other users', a file must be sealed against shrinking.
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

// Which files may be windows: all on tmpfs and hugetlbfs, or sealed ones only.
enum class MemoryFiles { kAny, kSealed };

class MemoryWindows {
 public:
  // The device is borrowed; it outlives the windows.
  MemoryWindows(driver::Device& device, MemoryFiles allowed) : device_(device), allowed_(allowed) {}

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
  MemoryFiles allowed_;
  std::vector<std::unique_ptr<driver::DmaWindow>> windows_;
};

}  // namespace pvrdma::standin
