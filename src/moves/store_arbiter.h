// StoreArbiter: decides where a VM is by editing the cluster's configuration (control/model/edits.h). Thread:
// any.
#pragma once

#include "control/plane/plane.h"
#include "motion/arbiter.h"

namespace pvrdma::moves {

class StoreArbiter final : public motion::Arbiter {
 public:
  // `plane` is borrowed.
  explicit StoreArbiter(control::Plane& plane) : plane_(plane) {}

  Result<void> begin(const motion::Motion& motion) override;
  Result<void> commit(const motion::Motion& motion) override;
  Result<void> end(const motion::Motion& motion) override;
  Result<Verdict> look(const motion::Motion& motion) override;
  Result<bool> source_is_gone(const motion::Motion& motion) override;

 private:
  control::Plane& plane_;
};

}  // namespace pvrdma::moves
