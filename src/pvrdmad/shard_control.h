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
#include "pvrdmad/checkpoints.h"
#include "pvrdmad/shard_handover.h"
#include "shard/loop.h"
#include "transport/roce/roce.h"

namespace pvrdma::daemon {

// Whether faults may be injected.
enum class Injection : bool { kRefused, kAllowed };

class ShardControl final : public control::AdapterControl {
 public:
  // All borrowed but the version; they outlive this, every call and every capture. `adapters` is used on the
  // shard only, and of `fabric` elsewhere the transports, which do not come or go meanwhile. `roce` null: no
  // links to native endpoints.
  ShardControl(shard::Loop& loop, const Clock& clock, const adapters::AdapterSet& adapters,
               fabric::Fabric& fabric, transport::Roce* roce, Reaper& reaper, std::string version,
               Injection injection)
      : loop_(loop),
        clock_(clock),
        adapters_(adapters),
        fabric_(fabric),
        roce_(roce),
        reaper_(reaper),
        version_(std::move(version)),
        injection_(injection),
        handover_(loop, clock, adapters) {}

  Result<void> set_link(const std::string& adapter, control::Link link) override;
  Result<std::unique_ptr<control::ByteStream>> start_capture(const control::CaptureWish& wish) override;
  Result<control::FaultState> add_fault(const control::FaultWish& wish) override;
  Result<std::vector<control::FaultState>> list_faults() override;
  Result<void> remove_fault(std::optional<std::uint64_t> id) override;
  Result<control::UpgradedVmm> upgrade_vmm(const control::UpgradeVmmWish& wish) override;
  Result<std::unique_ptr<control::ByteStream>> start_checkpoint(const control::CheckpointWish& wish) override;
  Result<void> finish_checkpoint(const std::string& adapter) override { return checkpoints_.finish(adapter); }
  Result<control::RestoredVm> restore(const control::CheckpointWish& wish, std::string_view state) override;

 private:
  class CaptureStream;

  // Where the VM's QEMU, or the one that waits for it, has its monitor.
  Result<std::string> monitor_of(const control::CheckpointWish& wish);

  shard::Loop& loop_;
  const Clock& clock_;
  const adapters::AdapterSet& adapters_;
  fabric::Fabric& fabric_;
  transport::Roce* const roce_;
  Reaper& reaper_;
  const std::string version_;
  const Injection injection_;
  ShardHandover handover_;
  Checkpoints checkpoints_{handover_};
  std::atomic<std::size_t> captures_{0};
  std::atomic<std::uint64_t> faults_made_{0};
};

}  // namespace pvrdma::daemon
