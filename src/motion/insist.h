// Insist: retries a step that must succeed, because the VM is nowhere else. It may fail for a moment: the
// shard may be busy, or another QEMU may still hold a disk.
//
// Thread: any, which may block.
#pragma once

#include <chrono>
#include <thread>

#include "base/result.h"
#include "base/time.h"

namespace pvrdma::motion {

inline constexpr Duration kInsistPatience = std::chrono::seconds(20);  // for the shard to answer
inline constexpr Duration kInsistPause = std::chrono::milliseconds(50);

// Returns the first success, or the last failure. Does not retry after kNotFound: the object is gone.
template <typename Step>
auto insist(const Step& step, Duration patience = kInsistPatience) {
  const Instant until = Instant::now() + patience;
  auto done = step();
  while (!done && done.error().kind != ErrorKind::kNotFound && Instant::now() < until) {
    std::this_thread::sleep_for(kInsistPause);
    done = step();
  }
  return done;
}

}  // namespace pvrdma::motion
