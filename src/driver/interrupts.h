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

// How often the eventfd was raised since the last look; does not block.
std::uint64_t take_interrupts(int eventfd);

// Waits until it is raised, at most `timeout` (rounded up to milliseconds); 0 when it was not.
std::uint64_t wait_interrupt(int eventfd, Duration timeout);

class Interrupts {
 public:
  // Makes the eventfds and hands them to the device.
  static Result<Interrupts> enable(Bus& bus);

  // Non-blocking eventfd of a vector, for the caller's own poll loop.
  int fd(abi::Vector vector) const { return fds_[static_cast<std::size_t>(vector)].get(); }

 private:
  std::array<Fd, abi::kVectorCount> fds_;
};

}  // namespace pvrdma::driver
