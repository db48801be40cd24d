#include "attack.h"

#include <cstdio>
#include <fmt/core.h>
#include <thread>

namespace pvrdma::bench {

void Field::begin() {
  fmt::print("{}\n", kBegun);
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the bench polls every 10
  deadline_ = std::chrono::steady_clock::now() + time_;
}

}  // namespace pvrdma::bench
