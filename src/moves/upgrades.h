// Upgrades: moves VMs to another QEMU of this host (motion/vmm_upgrade.h).
//
// Thread: any but the shard's, which may block.
#pragma once

#include <utility>

#include "motion/upgrade_service.h"
#include "moves/check_stays.h"
#include "moves/shard_side.h"

namespace pvrdma::moves {

class Upgrades final : public motion::UpgradeService {
 public:
  // `side` is borrowed.
  Upgrades(ShardSide& side, CheckStays check_stays) : side_(side), check_stays_(std::move(check_stays)) {}

  Result<motion::UpgradeReport> upgrade(const motion::UpgradeWish& wish) override;

 private:
  ShardSide& side_;
  const CheckStays check_stays_;
};

}  // namespace pvrdma::moves
