// Check: measures what an RDMA NIC of this host can do for the path hca: its limits, the time that
// registering memory takes, and its send and read rates in loopback. Users with hardware can report the
// results.
//
// Thread: one that may block, for some seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "transport/hca/checker.h"
#include "transport/hca/nic.h"

namespace pvrdma::transport::hca {

struct CheckOptions {
  std::uint32_t memory_mib = 256;                  // how much to register
  Duration time = std::chrono::milliseconds(500);  // spent on each rate
};

// Calls `wait` while no completion has arrived; null: polls without waiting. Errors: as HcaChecker's.
Result<HcaCheck> check_nic(const std::shared_ptr<Nic>& nic, const CheckOptions& options, const Clock& clock,
                           const std::function<void()>& wait = nullptr);

}  // namespace pvrdma::transport::hca
