// ShardBalancer: moves an adapter by itself from a busy shard of this host to one with little to do.
//
// Its thread asks the shards once in each period what they did in it. If one of them was too busy, it tries
// the moves that ShardBalance names, in their order, until one is made. A move that is refused is no error:
// a capture, a checkpoint or the operator's wish keeps the adapter where it is. If a shard does not answer,
// or cannot take the adapter, nothing more is tried in this period.
//
// Thread: made, started, stopped and destroyed by main().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "adapters/shard_balance.h"
#include "adapters/shard_load.h"
#include "adapters/shard_placement.h"
#include "adapters/shards.h"
#include "base/time.h"

namespace pvrdma::adapters {

class ShardBalancer {
 public:
  static constexpr Duration kPeriod = std::chrono::minutes(1);

  // All are borrowed.
  ShardBalancer(const Shards& shards, ShardPlacement& placement, const Clock& clock,
                Duration period = kPeriod)
      : shards_(shards), placement_(placement), clock_(clock), period_(period) {}
  ~ShardBalancer() { stop(); }
  ShardBalancer(const ShardBalancer&) = delete;
  ShardBalancer& operator=(const ShardBalancer&) = delete;

  void start();
  // Waits until a move that is under way is over.
  void stop();

  // What the thread calls in each period: measure(), then balance().

  // The load of each shard since the call before. Empty: this is the first call, or a shard did not answer in
  // this call or the one before.
  std::vector<ShardLoad> measure();
  // Makes at most one move.
  void balance(const std::vector<ShardLoad>& loads);

 private:
  void run(const std::stop_token& stop);
  // As FindExchange: what the adapter's connected QPs have sent and received.
  std::vector<std::uint64_t> find_exchange(const std::string& adapter) const;

  const Shards& shards_;
  ShardPlacement& placement_;
  const Clock& clock_;
  const Duration period_;
  std::vector<ShardSample> last_;  // by shard; empty: not all were seen
  ShardBalance balance_;
  std::mutex mutex_;  // protects nothing: the thread waits with it
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace pvrdma::adapters
