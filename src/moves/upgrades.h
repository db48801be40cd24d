// Upgrades: moves VMs to another QEMU of this host (motion/vmm_upgrade.h).
//
// Thread: any but the shard's, which may block.
#pragma once

#include "motion/upgrade_service.h"
#include "moves/shard_side.h"

namespace pvrdma::moves {

class Upgrades final : public motion::UpgradeService {
 public:
  // `side` is borrowed.
  explicit Upgrades(ShardSide& side) : side_(side) {}

  Result<motion::UpgradeReport> upgrade(const motion::UpgradeWish& wish) override;

 private:
  ShardSide& side_;
};

}  // namespace pvrdma::moves
