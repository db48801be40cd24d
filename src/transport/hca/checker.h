// HcaChecker: the seam through which the API has an RDMA NIC of this host measured.
//
// Thread: values; HcaChecker any but the shard's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace pvrdma::transport {

// The request to measure an RDMA NIC of this host.
struct HcaCheckWish {
  std::string device;              // its name in libibverbs; empty: the only device of this host
  std::uint32_t memory_mib = 256;  // how much to register
};

// The limits of the NIC, and what was measured in loopback with 32 work requests outstanding.
struct HcaCheck {
  std::string device;
  std::uint32_t mtu = 0;  // of its port, in bytes
  std::vector<std::string> gids;
  std::string gid;  // used for the measurement
  std::uint64_t max_qps = 0;
  std::uint64_t max_work_requests = 0;  // per queue of a QP
  std::uint64_t max_sges = 0;
  std::uint64_t max_cqes = 0;
  std::uint64_t max_regions = 0;
  std::uint64_t max_region_bytes = 0;
  std::uint64_t max_reads = 0;  // outstanding READs per QP
  std::uint64_t memory_mib = 0;
  // Microseconds per GiB: registering memory that was never touched, registering memory that was,
  // deregistering.
  std::uint64_t register_untouched_us = 0;
  std::uint64_t register_us = 0;
  std::uint64_t deregister_us = 0;
  std::uint64_t sends = 0;            // SENDs of 64 bytes per second
  std::uint64_t send_bytes = 0;       // bytes per second in SENDs of 4096
  std::uint64_t read_bytes = 0;       // bytes per second in READs of 4096
  std::uint64_t long_read_bytes = 0;  // bytes per second in READs of 65536
  std::uint64_t read_ns = 0;          // latency of one READ of 64 bytes
};

// Measures NICs of this host on behalf of the API.
class HcaChecker {
 public:
  virtual ~HcaChecker() = default;
  // Blocks for some seconds. Errors: one sentence that says what the device refused, or that its port is
  // down. kNotFound: there is no such device; kInvalid: there are several; kConflict: a measurement is in
  // progress.
  virtual Result<HcaCheck> check(const HcaCheckWish& wish) = 0;
};

}  // namespace pvrdma::transport
