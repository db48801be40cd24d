// NicChecks: measures RDMA NICs of this host through libibverbs, one at a time.
//
// Thread: any but the shard's.
#pragma once

#include <mutex>

#include "transport/hca/checker.h"

namespace pvrdma::transport::hca {

class NicChecks final : public HcaChecker {
 public:
  Result<HcaCheck> check(const HcaCheckWish& wish) override;

 private:
  std::mutex one_at_a_time_;
};

}  // namespace pvrdma::transport::hca
