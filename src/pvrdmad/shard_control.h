// ShardControl: the checks of RDMA NICs. Thread: any but the shard's.
#pragma once

#include "control/adapter_control.h"
#include "transport/hca/nic_checks.h"

namespace pvrdma::daemon {

class ShardControl final : public control::AdapterControl {
 public:
  Result<control::HcaCheck> check_hca(const control::HcaCheckWish& wish) override {
    return hca_checks_.check(wish);
  }

 private:
  transport::hca::NicChecks hca_checks_;
};

}  // namespace pvrdma::daemon
