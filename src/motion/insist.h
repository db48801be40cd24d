// Insist: what has to be done, as the VM is nowhere else, is tried again when it fails: a shard may be busy,
// a disk another QEMU's for a moment more.
//
// Thread: any, which may block.
#pragma once

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/result.h"
#include "base/time.h"

namespace pvrdma::motion {

inline constexpr Duration kInsistPatience = std::chrono::seconds(20);  // with the shard
inline constexpr Duration kInsistPause = std::chrono::milliseconds(50);

// The first result that is none of a failure, or the last one. ENOENT: there is nothing to insist on.
template <typename Step>
auto insist(const Step& step, Duration patience = kInsistPatience) {
  const Instant until = Instant::now() + patience;
  auto done = step();
  while (!done && done.error().code != ENOENT && Instant::now() < until) {
    std::this_thread::sleep_for(kInsistPause);
    done = step();
  }
  return done;
}

}  // namespace pvrdma::motion
