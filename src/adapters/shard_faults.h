// ShardFaults: faults of the adapters that a shard serves. A fault is made on the thread that asks for it;
// only its adapter knows it afterwards. Thread: any but the shard's.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "adapters/adapter_set.h"
#include "adapters/faults.h"
#include "base/reaper.h"
#include "fabric/fabric.h"
#include "shard/loop.h"
#include "transport/roce/roce.h"

namespace pvrdma::adapters {

// Whether faults may be injected.
enum class Injection : bool { kRefused, kAllowed };

class ShardFaults final : public Faults {
 public:
  // All borrowed; they outlive this and every call. `adapters` is used on the shard only; of `fabric`, other
  // threads use the transports, which do not change meanwhile. `roce` null: no links to native endpoints.
  ShardFaults(shard::Loop& loop, const Clock& clock, const AdapterSet& adapters, fabric::Fabric& fabric,
              transport::Roce* roce, Reaper& reaper, Injection injection)
      : loop_(loop),
        clock_(clock),
        adapters_(adapters),
        fabric_(fabric),
        roce_(roce),
        reaper_(reaper),
        injection_(injection) {}

  Result<FaultState> add(const FaultWish& wish) override;
  Result<std::vector<FaultState>> list() override;
  Result<void> remove(std::optional<std::uint64_t> id) override;

 private:
  shard::Loop& loop_;
  const Clock& clock_;
  const AdapterSet& adapters_;
  fabric::Fabric& fabric_;
  transport::Roce* const roce_;
  Reaper& reaper_;
  const Injection injection_;
  std::atomic<std::uint64_t> made_{0};
};

}  // namespace pvrdma::adapters
