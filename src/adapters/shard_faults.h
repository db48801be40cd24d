// ShardFaults: faults of the adapters of this host, which belong to its shards. A fault is made on the thread
// that asks for it; only its adapter knows it afterwards. Thread: any but a shard's.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "adapters/faults.h"
#include "adapters/shards.h"
#include "base/reaper.h"
#include "base/time.h"

namespace pvrdma::adapters {

// Whether faults may be injected.
enum class Injection : bool { kRefused, kAllowed };

class ShardFaults final : public Faults {
 public:
  // All borrowed; they outlive this and every call.
  ShardFaults(const Shards& shards, const Clock& clock, Reaper& reaper, Injection injection)
      : shards_(shards), clock_(clock), reaper_(reaper), injection_(injection) {}

  Result<FaultState> add(const FaultWish& wish) override;
  Result<std::vector<FaultState>> list() override;
  Result<void> remove(std::optional<std::uint64_t> id) override;

 private:
  const Shards& shards_;
  const Clock& clock_;
  Reaper& reaper_;
  const Injection injection_;
  std::atomic<std::uint64_t> made_{0};
};

}  // namespace pvrdma::adapters
