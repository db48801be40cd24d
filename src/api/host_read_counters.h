// How many reads of other hosts this host asked for and answered since its daemon started.
//
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace pvrdma::api {

struct HostReadCounters {
  // Of those that this host asked for.
  std::atomic<std::uint64_t> answered = 0;  // by the other host, if only with a refusal
  std::atomic<std::uint64_t> refused = 0;   // by this host, which did not ask the other one
  std::atomic<std::uint64_t> failed = 0;    // no answer came

  std::atomic<std::uint64_t> served = 0;  // of other hosts, by this host
};

}  // namespace pvrdma::api
