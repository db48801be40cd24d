#include "driver/dma_window.h"

#include <cerrno>
#include <fmt/core.h>

#include "driver/device.h"

namespace pvrdma::driver {

// Window n lies at (n + 1) TiB, above guest RAM and the BARs.
DmaWindow::DmaWindow(Device& device, std::size_t number, std::uint64_t bytes)
    : device_(device), number_(number), base_((number + 1) * kBytesMax), bytes_(bytes) {}

Result<std::unique_ptr<DmaWindow>> DmaWindow::create(Device& device, int fd, std::uint64_t fd_offset,
                                                     std::uint64_t bytes) {
  if (bytes == 0 || bytes > kBytesMax) {
    return fail(EINVAL, fmt::format("a DMA window has 1 to {} bytes, not {}", kBytesMax, bytes));
  }
  const auto number = device.take_window();
  if (!number) return Failure(number.error());
  const std::uint64_t base = (*number + 1) * kBytesMax;
  if (auto mapped = device.bus().dma_map(base, bytes, fd, fd_offset); !mapped) {
    device.give_window_back(*number);
    return Failure(std::move(mapped.error()));
  }
  return std::unique_ptr<DmaWindow>(new DmaWindow(device, *number, bytes));
}

DmaWindow::~DmaWindow() {
  (void)device_.bus().dma_unmap(base_.value, bytes_);
  device_.give_window_back(number_);
}

}  // namespace pvrdma::driver
