// Check: what an RDMA NIC of this host can do for the path hca: its limits, how long memory takes to be
// registered, and how fast it sends and reads to itself (loopback). For people who have hardware to tell us.
//
// Thread: one that may block, for some seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "transport/hca/nic.h"

namespace pvrdma::transport {

// An RDMA NIC of this host is to be measured.
struct HcaCheckWish {
  std::string device;              // as libibverbs calls it; empty: the only one there is
  std::uint32_t memory_mib = 256;  // to be registered
};

// What it can do, and what was measured in loopback with 32 work requests under way.
struct HcaCheck {
  std::string device;
  std::uint32_t mtu = 0;  // of its port: bytes
  std::vector<std::string> gids;
  std::string gid;  // that was used
  std::uint64_t max_qps = 0;
  std::uint64_t max_work_requests = 0;  // of a queue of a QP
  std::uint64_t max_sges = 0;
  std::uint64_t max_cqes = 0;
  std::uint64_t max_regions = 0;
  std::uint64_t max_region_bytes = 0;
  std::uint64_t max_reads = 0;  // of a QP, at a time
  std::uint64_t memory_mib = 0;
  // Microseconds for a GiB: of memory that was never touched, that was, and letting it go.
  std::uint64_t register_untouched_us = 0;
  std::uint64_t register_us = 0;
  std::uint64_t deregister_us = 0;
  std::uint64_t sends = 0;            // of 64 bytes, a second
  std::uint64_t send_bytes = 0;       // in SENDs of 4096, a second
  std::uint64_t read_bytes = 0;       // in READs of 4096
  std::uint64_t long_read_bytes = 0;  // in READs of 65536
  std::uint64_t read_ns = 0;          // one READ of 64 bytes, alone
};

// Measures NICs of this host: what the API asks for.
class HcaChecker {
 public:
  virtual ~HcaChecker() = default;
  // Blocks for some seconds. Errors: one sentence that says what the device refused, or that its port is
  // down; ENOENT: there is no such device; EINVAL: there are several; EBUSY: one is being measured.
  virtual Result<HcaCheck> check(const HcaCheckWish& wish) = 0;
};

}  // namespace pvrdma::transport

namespace pvrdma::transport::hca {

struct CheckOptions {
  std::uint32_t memory_mib = 256;                  // to be registered
  Duration time = std::chrono::milliseconds(500);  // of each rate
};

// `wait` is called while nothing has come; null: nothing is done then. Errors: as HcaChecker's.
Result<HcaCheck> check_nic(const std::shared_ptr<Nic>& nic, const CheckOptions& options, const Clock& clock,
                           const std::function<void()>& wait = nullptr);

}  // namespace pvrdma::transport::hca
