// Interrupts: the three MSI-X vectors of an adapter as eventfds. docs/device.md 1.3. Thread: one thread at
// a time.
#pragma once

#include <array>
#include <cstdint>

#include "abi/registers.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "driver/bus.h"

namespace pvrdma::driver {

// Returns how often the eventfd was raised since the last call; does not block.
std::uint64_t take_interrupts(int eventfd);

// Waits up to `timeout` (rounded up to milliseconds) until the eventfd is raised; 0 if it was not.
std::uint64_t wait_interrupt(int eventfd, Duration timeout);

class Interrupts {
 public:
  // Makes the eventfds and assigns them to the device's vectors.
  static Result<Interrupts> enable(Bus& bus);

  // The non-blocking eventfd of a vector, for the caller's own poll loop.
  int fd(abi::Vector vector) const { return fds_[static_cast<std::size_t>(vector)].get(); }

 private:
  std::array<Fd, abi::kVectorCount> fds_;
};

}  // namespace pvrdma::driver
