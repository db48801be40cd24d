// ShardSnapshots: takes snapshots by asking the shard.
//
// The shard only copies plain values. The calling thread makes them readable (text, sorting). Thread: any but
// the shard's.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/adapter_set.h"
#include "fabric/fabric.h"
#include "shard/loop.h"
#include "snapshots/snapshot.h"
#include "transport/hca/hca.h"
#include "transport/roce/roce.h"
#include "transport/tcp/tcp.h"

namespace pvrdma::snapshots {

// Counters of the process as a whole, which are not the shard's. Called on the calling thread.
using ProcessCounters = std::function<std::vector<CounterGroup>()>;

class ShardSnapshots final : public SnapshotSource {
 public:
  // All are borrowed, outlive this and every call, and are read on the shard only. `tcp` and `hca` are null
  // if the host is not in a cluster; `roce` is null if there are no links to native endpoints.
  // `process_counters` may be empty.
  ShardSnapshots(shard::Loop& loop, const adapters::AdapterSet& adapters, const fabric::Fabric& fabric,
                 const transport::Tcp* tcp = nullptr, const transport::Hca* hca = nullptr,
                 const transport::Roce* roce = nullptr, ProcessCounters process_counters = nullptr)
      : loop_(loop),
        adapters_(adapters),
        fabric_(fabric),
        tcp_(tcp),
        hca_(hca),
        roce_(roce),
        process_counters_(std::move(process_counters)) {}

  Result<Snapshot> take_snapshot(SnapshotDetail detail) override;

 private:
  // Adds the QPs of one adapter, and nothing if the adapter has gone.
  Result<void> add_qps(const std::string& adapter, Snapshot& snapshot);

  shard::Loop& loop_;
  const adapters::AdapterSet& adapters_;
  const fabric::Fabric& fabric_;
  const transport::Tcp* const tcp_;
  const transport::Hca* const hca_;
  const transport::Roce* const roce_;
  const ProcessCounters process_counters_;
};

}  // namespace pvrdma::snapshots
