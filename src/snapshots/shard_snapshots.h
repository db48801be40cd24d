// ShardSnapshots: takes snapshots by asking the shards, all at once.
//
// A shard only copies plain values. The calling thread makes them readable (text, sorting) and adds up the
// counters. The values of two shards are not of the same moment. Thread: any but a shard's.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/shards.h"
#include "snapshots/snapshot.h"
#include "transport/hca/hca.h"
#include "transport/tcp/tcp.h"
#include "verbs/host_account.h"

namespace pvrdma::snapshots {

// Counters of the process as a whole, which belong to no shard. Called on the calling thread.
using ProcessCounters = std::function<std::vector<CounterGroup>()>;

class ShardSnapshots final : public SnapshotSource {
 public:
  // All are borrowed and outlive this and every call. `tcps`: by shard; empty if the host is not in a
  // cluster. `hca` belongs to the first shard; null if the host is not in a cluster. `process_counters` may
  // be empty.
  ShardSnapshots(const adapters::Shards& shards, const verbs::HostAccount& account,
                 std::vector<const transport::Tcp*> tcps = {}, const transport::Hca* hca = nullptr,
                 ProcessCounters process_counters = nullptr)
      : shards_(shards),
        account_(account),
        tcps_(std::move(tcps)),
        hca_(hca),
        process_counters_(std::move(process_counters)) {}

  Result<Snapshot> take_snapshot(SnapshotDetail detail) override;

 private:
  // Adds the QPs of one adapter of the shard, and nothing if the adapter has gone.
  Result<void> add_qps(std::size_t shard, const std::string& adapter, Snapshot& snapshot);
  const transport::Tcp* tcp_of(std::size_t shard) const { return tcps_.empty() ? nullptr : tcps_[shard]; }
  const transport::Hca* hca_of(std::size_t shard) const { return shard == 0 ? hca_ : nullptr; }

  const adapters::Shards& shards_;
  const verbs::HostAccount& account_;
  const std::vector<const transport::Tcp*> tcps_;
  const transport::Hca* const hca_;
  const ProcessCounters process_counters_;
};

}  // namespace pvrdma::snapshots
