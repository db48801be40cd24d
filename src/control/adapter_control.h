// AdapterControl: the API's checks of RDMA NICs. Thread: any thread but the shard's.
#pragma once

#include "base/result.h"
#include "transport/hca/check.h"

namespace pvrdma::control {

using transport::HcaCheck;
using transport::HcaCheckWish;

class AdapterControl {
 public:
  virtual ~AdapterControl() = default;
  // Blocks for some seconds. Errors: ENOENT: no such device; EBUSY: one is being checked; otherwise what the
  // device refused.
  virtual Result<HcaCheck> check_hca(const HcaCheckWish& wish) = 0;
};

}  // namespace pvrdma::control
