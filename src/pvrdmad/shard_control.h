// ShardControl: carries the control plane's changes to the shard and waits until they are done.
//
// Faults are made on the thread that asks for them, and known to their adapter only.
//
// A capture's ring is filled on the shard and read, and made a file of, on the thread that asked for it.
//
// Thread: any but the shard's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/adapter_set.h"
#include "base/reaper.h"
#include "control/adapter_control.h"
#include "fabric/fabric.h"
#include "moves/checkpoints.h"
#include "moves/motions.h"
#include "moves/shard_side.h"
#include "shard/loop.h"
#include "transport/hca/nic_checks.h"
#include "transport/roce/roce.h"

namespace pvrdma::daemon {

// Whether faults may be injected.
enum class Injection : bool { kRefused, kAllowed };

class ShardControl final : public control::AdapterControl {
 public:
  // What a member of a cluster has besides. All borrowed.
  struct Member {
    control::Plane& plane;
    const calls::HostCalls& outgoing;
    calls::IncomingCalls& incoming;
  };

  // All borrowed but the version; they outlive this, every call and every capture. `adapters` is used on the
  // shard only, and of `fabric` elsewhere the transports, which do not come or go meanwhile. `roce` null: no
  // links to native endpoints.
  ShardControl(shard::Loop& loop, const Clock& clock, const adapters::AdapterSet& adapters,
               fabric::Fabric& fabric, transport::Roce* roce, Reaper& reaper, std::string version,
               Injection injection, std::optional<Member> member = std::nullopt)
      : loop_(loop),
        clock_(clock),
        adapters_(adapters),
        fabric_(fabric),
        roce_(roce),
        reaper_(reaper),
        version_(std::move(version)),
        injection_(injection),
        side_(loop, clock, adapters) {
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

  Result<void> set_link(const std::string& adapter, control::Link link) override;
  Result<std::unique_ptr<control::ByteStream>> start_capture(const control::CaptureWish& wish) override;
  Result<control::FaultState> add_fault(const control::FaultWish& wish) override;
  Result<std::vector<control::FaultState>> list_faults() override;
  Result<void> remove_fault(std::optional<std::uint64_t> id) override;
  Result<control::UpgradedVmm> upgrade_vmm(const control::UpgradeVmmWish& wish) override;
  Result<std::unique_ptr<control::ByteStream>> start_checkpoint(const control::CheckpointWish& wish) override;
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
  class CaptureStream;

  // Where the VM's QEMU, or the one that waits for it, has its monitor.
  // `said`: the path that was said; empty: where it usually is.
  Result<std::string> monitor_of(const std::string& vm, const std::string& said);

  shard::Loop& loop_;
  const Clock& clock_;
  const adapters::AdapterSet& adapters_;
  fabric::Fabric& fabric_;
  transport::Roce* const roce_;
  Reaper& reaper_;
  const std::string version_;
  const Injection injection_;
  moves::ShardSide side_;
  moves::Checkpoints checkpoints_{side_};
  transport::hca::NicChecks hca_checks_;
  std::unique_ptr<moves::Motions> motions_;  // null: no member of a cluster
  std::atomic<bool> stopping_ = false;
  std::atomic<std::size_t> captures_{0};
  std::atomic<std::uint64_t> faults_made_{0};
};

}  // namespace pvrdma::daemon
