// ShardSnapshots: takes snapshots by asking the shards, all at once.
//
// A shard only copies plain values. The calling thread makes them readable (text, sorting) and adds up the
// counters. The values of two shards are not of the same moment. A ward that does not answer soon is shown as
// it was when it answered last, and its adapters say so: so the sums of the counters do not fall.
//
// Thread: any but a shard's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
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
  // All are borrowed and outlive this and every call. `tcps` and `hcas`: by shard; empty if the host is not
  // in a cluster. `process_counters` may be empty.
  ShardSnapshots(const adapters::Shards& shards, const verbs::HostAccount& account,
                 std::vector<const transport::Tcp*> tcps = {}, std::vector<const transport::Hca*> hcas = {},
                 ProcessCounters process_counters = nullptr);
  ~ShardSnapshots() override;

  Result<Snapshot> take_snapshot(SnapshotDetail detail) override;

 private:
  static constexpr Duration kWardPatience = std::chrono::milliseconds(250);

  struct LastOfWard;

  // Adds the QPs of one adapter of the shard, and nothing if the adapter has gone.
  Result<void> add_qps(std::size_t shard, const std::string& adapter, Snapshot& snapshot);
  const transport::Tcp* tcp_of(std::size_t shard) const { return tcps_.empty() ? nullptr : tcps_[shard]; }
  const transport::Hca* hca_of(std::size_t shard) const { return hcas_.empty() ? nullptr : hcas_[shard]; }

  const adapters::Shards& shards_;
  const verbs::HostAccount& account_;
  const std::vector<const transport::Tcp*> tcps_;
  const std::vector<const transport::Hca*> hcas_;
  const ProcessCounters process_counters_;
  const std::unique_ptr<LastOfWard> last_of_ward_;
};

}  // namespace pvrdma::snapshots
