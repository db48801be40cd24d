// ShardSnapshots: answers the control plane's questions by asking the shard.
//
// The shard copies plain values and goes on; making them readable (text, sorting) happens on the asking
// thread. Thread: take_snapshot() any thread but the shard's.
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
  // All borrowed; they outlive this and every call, and are read on the shard only. `tcp` null: no member of
  // a cluster, as `hca`; `roce` null: no links to native endpoints.
  ShardSnapshots(shard::Loop& loop, const adapters::AdapterSet& adapters, const fabric::Fabric& fabric,
                 const transport::Tcp* tcp = nullptr, const transport::Hca* hca = nullptr,
                 const transport::Roce* roce = nullptr)
      : loop_(loop), adapters_(adapters), fabric_(fabric), tcp_(tcp), hca_(hca), roce_(roce) {}

  Result<control::Snapshot> take_snapshot(control::SnapshotDetail detail) override;

 private:
  // Those of one adapter; none when it is gone.
  Result<void> add_qps(const std::string& adapter, control::Snapshot& snapshot);

  shard::Loop& loop_;
  const adapters::AdapterSet& adapters_;
  const fabric::Fabric& fabric_;
  const transport::Tcp* const tcp_;
  const transport::Hca* const hca_;
  const transport::Roce* const roce_;
};

}  // namespace pvrdma::daemon
