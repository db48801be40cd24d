// ShardSnapshots: answers the control plane's questions by asking the shard.
//
// The shard copies plain values and goes on; making them readable (text, sorting) happens on the asking
// thread. Thread: take_snapshot() any thread but the shard's.
#pragma once

#include <memory>
#include <vector>

#include "control/snapshot.h"
#include "fabric/switch.h"
#include "pvrdmad/served_adapter.h"
#include "shard/loop.h"

namespace pvrdma::daemon {

class ShardSnapshots final : public control::SnapshotSource {
 public:
  // All borrowed; they outlive this and every call. `adapters` and `fabric_switch` are read on the shard
  // only.
  ShardSnapshots(shard::Loop& loop, const std::vector<std::unique_ptr<ServedAdapter>>& adapters,
                 const fabric::Switch& fabric_switch);

  Result<control::Snapshot> take_snapshot(control::SnapshotDetail detail) override;

 private:
  shard::Loop& loop_;
  const std::vector<std::unique_ptr<ServedAdapter>>& adapters_;
  const fabric::Switch& switch_;
};

}  // namespace pvrdma::daemon
