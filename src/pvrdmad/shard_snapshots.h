// ShardSnapshots: takes snapshots for the control plane by asking the shard.
//
// The shard only copies plain values. The calling thread makes them readable (text, sorting). Thread: any but
// the shard's.
#pragma once

#include <string>

#include "adapters/adapter_set.h"
#include "control/snapshot.h"
#include "fabric/fabric.h"
#include "shard/loop.h"
#include "transport/hca/hca.h"
#include "transport/roce/roce.h"
#include "transport/tcp/tcp.h"

namespace pvrdma::daemon {

class ShardSnapshots final : public control::SnapshotSource {
 public:
  // All are borrowed, outlive this and every call, and are read on the shard only. `tcp` and `hca` are null
  // if the host is not in a cluster; `roce` is null if there are no links to native endpoints.
  ShardSnapshots(shard::Loop& loop, const adapters::AdapterSet& adapters, const fabric::Fabric& fabric,
                 const transport::Tcp* tcp = nullptr, const transport::Hca* hca = nullptr,
                 const transport::Roce* roce = nullptr)
      : loop_(loop), adapters_(adapters), fabric_(fabric), tcp_(tcp), hca_(hca), roce_(roce) {}

  Result<control::Snapshot> take_snapshot(control::SnapshotDetail detail) override;

 private:
  // Adds the QPs of one adapter, and nothing if the adapter has gone.
  Result<void> add_qps(const std::string& adapter, control::Snapshot& snapshot);

  shard::Loop& loop_;
  const adapters::AdapterSet& adapters_;
  const fabric::Fabric& fabric_;
  const transport::Tcp* const tcp_;
  const transport::Hca* const hca_;
  const transport::Roce* const roce_;
};

}  // namespace pvrdma::daemon
