// count_open_fds(): how many file descriptors this process has open, including the same few for the look
// itself. Thread: any.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace pvrdma::test {

inline std::size_t count_open_fds() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace pvrdma::test
