#include "driver/interrupts.h"

#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace pvrdma::driver {

std::uint64_t take_interrupts(int eventfd) {
  std::uint64_t count = 0;
  return ::read(eventfd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

std::uint64_t wait_interrupt(int eventfd, Duration timeout) {
  if (const std::uint64_t count = take_interrupts(eventfd); count != 0) return count;
  const Instant deadline = Instant::now() + timeout;
  while (true) {
    const Duration left = deadline - Instant::now();
    const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd waiting{eventfd, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, left_ms > 0 ? static_cast<int>(left_ms) : 0);
    if (ready > 0) return take_interrupts(eventfd);
    if (ready == 0 || errno != EINTR) return 0;
  }
}

Result<Interrupts> Interrupts::enable(Bus& bus) {
  Interrupts made;
  for (std::uint32_t vector = 0; vector < abi::kVectorCount; ++vector) {
    made.fds_[vector] = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!made.fds_[vector]) return fail_errno(errno, "creating an eventfd");
    if (auto set = bus.set_vector_eventfd(vector, made.fds_[vector].get()); !set) {
      return Failure(std::move(set.error()));
    }
  }
  return made;
}

}  // namespace pvrdma::driver
