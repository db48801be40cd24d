// Check: what an RDMA NIC of this host can do for the path hca: its limits, how long memory takes to be
// registered, and how fast it sends and reads to itself (loopback). For people who have hardware to tell us.
//
// Thread: one that may block, for some seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "transport/hca/verbs.h"

namespace pvrdma::transport::hca {

struct CheckOptions {
  std::uint64_t memory_bytes = 256u << 20;         // to be registered
  Duration time = std::chrono::milliseconds(500);  // of each rate
};

struct CheckReport {
  std::string device;
  NicLimits limits;
  NicPort port;
  verbs::Gid gid;  // that was spoken to
  // Of memory that was never touched, and then again. In GiB of it.
  Duration register_untouched_per_gib{0};
  Duration register_touched_per_gib{0};
  Duration deregister_per_gib{0};
  // With 32 under way.
  double sends_per_second = 0;            // of 64 bytes
  double send_bytes_per_second = 0;       // of 4096 bytes
  double read_bytes_per_second = 0;       // of 4096 bytes
  double long_read_bytes_per_second = 0;  // of 64 KiB
  Duration read_takes{0};                 // one of 64 bytes, alone
};

// `wait` is called while nothing has come; null: nothing is done then. Errors: one sentence that says what
// the device refused, or that its port is down.
Result<CheckReport> check_nic(const std::shared_ptr<Nic>& nic, const CheckOptions& options,
                              const Clock& clock, const std::function<void()>& wait = nullptr);

}  // namespace pvrdma::transport::hca
