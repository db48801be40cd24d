// HcaChecks: measures RDMA NICs of this host when somebody asks (transport/hca/check.h), one at a time.
//
// Thread: any but the shard's.
#pragma once

#include <mutex>

#include "base/result.h"
#include "control/adapter_control.h"

namespace pvrdma::daemon {

class HcaChecks {
 public:
  // As control::AdapterControl's.
  Result<control::HcaCheck> check(const control::HcaCheckWish& wish);

 private:
  std::mutex one_at_a_time_;
};

}  // namespace pvrdma::daemon
