// ShardControl: the operations on adapters that move or keep VMs, and the checks of RDMA NICs.
//
// Thread: any but the shard's.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/adapter_set.h"
#include "control/adapter_control.h"
#include "moves/checkpoints.h"
#include "moves/motions.h"
#include "moves/shard_side.h"
#include "shard/loop.h"
#include "transport/hca/nic_checks.h"

namespace pvrdma::daemon {

class ShardControl final : public control::AdapterControl {
 public:
  // What a member of a cluster has besides. All borrowed.
  struct Member {
    control::Plane& plane;
    const calls::HostCalls& outgoing;
    calls::IncomingCalls& incoming;
  };

  // All borrowed; they outlive this and every call. `adapters` is used on the shard only.
  ShardControl(shard::Loop& loop, const Clock& clock, const adapters::AdapterSet& adapters,
               std::optional<Member> member = std::nullopt)
      : side_(loop, clock, adapters) {
    if (!member) return;
    motions_ = std::make_unique<moves::Motions>(member->plane, side_, member->outgoing, member->incoming,
                                                [this](const std::string& vm) { return monitor_of(vm, {}); });
  }

  // This daemon ends: what waits in a call waits no more.
  void interrupt() { stopping_ = true; }
  // Before the plane ends.
  void stop_motions() {
    if (motions_ != nullptr) motions_->stop();
  }

  Result<control::UpgradedVmm> upgrade_vmm(const control::UpgradeVmmWish& wish) override;
  Result<std::unique_ptr<ByteStream>> start_checkpoint(const control::CheckpointWish& wish) override;
  Result<void> finish_checkpoint(const std::string& adapter) override { return checkpoints_.finish(adapter); }
  Result<control::RestoredVm> restore(const control::CheckpointWish& wish, std::string_view state) override;
  Result<control::MotionState> start_motion(const control::MotionWish& wish) override;
  Result<void> check_motion(const control::MotionWish& wish) override;
  std::vector<control::MotionState> list_motions() override;
  std::string print_state(std::string_view state) override;
  control::MotionCounters motion_counters() override {
    return motions_ != nullptr ? motions_->counters() : control::MotionCounters{};
  }
  Result<void> cancel_motion(const std::string& vm) override;
  Result<control::HcaCheck> check_hca(const control::HcaCheckWish& wish) override {
    return hca_checks_.check(wish);
  }

 private:
  // Where the VM's QEMU, or the one that waits for it, has its monitor.
  // `said`: the path that was said; empty: where it usually is.
  Result<std::string> monitor_of(const std::string& vm, const std::string& said);

  moves::ShardSide side_;
  moves::Checkpoints checkpoints_{side_};
  transport::hca::NicChecks hca_checks_;
  std::unique_ptr<moves::Motions> motions_;  // null: no member of a cluster
  std::atomic<bool> stopping_ = false;
};

}  // namespace pvrdma::daemon
