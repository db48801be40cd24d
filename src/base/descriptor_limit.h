// How many descriptors the process may have open, and how many of them are reserved for descriptors in
// clients' messages. If the process runs out of numbers there, a VM loses memory or interrupts. So code that
// accepts connections stops before that. Thread: any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <sys/resource.h>

namespace pvrdma {

inline std::size_t descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<int>::max();
  return static_cast<std::size_t>(limit.rlim_cur);
}

// Raises the soft limit to the hard one. The usual soft limit is for programs that use select().
inline void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Whether `fd`, which was just opened, is one of the reserved numbers. The kernel gives the lowest free
// number, so all lower ones are in use.
inline bool is_of_descriptor_reserve(int fd) {
  constexpr std::size_t kReserve = 512;  // twice what one message can bring
  const std::size_t limit = descriptor_limit();
  return static_cast<std::size_t>(fd) >= limit - std::min(kReserve, limit / 4);
}

}  // namespace pvrdma
