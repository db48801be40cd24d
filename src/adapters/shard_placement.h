// ShardPlacement: moves adapters between the shards of this host.
//
// For a moment both shards have the adapter, both stopped. The steps alternate between the shards, led by the
// thread that called place(), and no other thread asks the shards meanwhile (Shards::Standstill):
//
//   the old shard   stops the adapter, lets its client wait, and writes its record
//   the new shard   makes the adapter of the record; it does nothing yet
//   the old shard   hands its GIDs over, and destroys its adapter
//   the new shard   lets the adapter go on; its peers repeat what they sent to it meanwhile
//
// If the second step fails, or the third cannot be asked for in time, then the old shard lets its adapter go
// on. The fourth step cannot fail, and is asked for until it is done.
//
// Thread: any but a shard's.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "adapters/placement.h"
#include "adapters/shards.h"

namespace pvrdma::adapters {

// Why an adapter must stay on its shard now (kConflict): what the shards themselves do not know.
using CheckIdle = std::function<Result<void>(const std::string& adapter)>;

class ShardPlacement final : public Placement {
 public:
  // `shards` is borrowed.
  ShardPlacement(const Shards& shards, CheckIdle check_idle)
      : shards_(shards), check_idle_(std::move(check_idle)) {}

  Result<Placed> place(const std::string& adapter, std::uint32_t shard) override;

 private:
  const Shards& shards_;
  const CheckIdle check_idle_;
};

}  // namespace pvrdma::adapters
