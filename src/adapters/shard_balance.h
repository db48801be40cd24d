// ShardBalance: which adapter should leave a busy shard, and for which other one.
//
// A shard that was above kBusy gives an adapter to one that was below kIdle. The adapter's own share is below
// half of the difference, so the shard that it comes to is less busy afterwards than the one that it left.
// The share is at least kLeastShare, because the guest notices a pause. An adapter that has moved stays for
// kStay.
//
// Pure: times are arguments, and the same calls give the same answers. Thread: owned by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "adapters/shard_load.h"
#include "base/time.h"

namespace pvrdma::adapters {

// A move that makes a busy shard less busy.
struct Relief {
  std::string adapter;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  double share = 0;  // the adapter's, of the time
  double from_busy = 0;
  double to_busy = 0;
  bool joins_peers = false;  // most of what it exchanges on this host is with adapters of `to`
};

// One clause, for the log.
std::string reason_of(const Relief& relief);

class ShardBalance {
 public:
  static constexpr double kBusy = 0.8;
  static constexpr double kIdle = 0.4;
  static constexpr double kLeastShare = 0.05;
  static constexpr Duration kStay = std::chrono::minutes(5);

  // The moves of which one may be made now, the largest share first. `loads`: by shard.
  std::vector<Relief> reliefs(const std::vector<ShardLoad>& loads, Instant now);
  void note_moved(const std::string& adapter, Instant now) { moved_.insert_or_assign(adapter, now); }

 private:
  std::map<std::string, Instant> moved_;  // when, by adapter; those that stay
};

// The bytes that an adapter exchanges with the adapters of each shard, by shard; empty: unknown.
using FindExchange = std::function<std::vector<std::uint64_t>(const std::string& adapter)>;

// Puts first the moves that bring an adapter to its peers. Otherwise the order stays. Asks once for each
// adapter.
void prefer_peers(std::vector<Relief>& reliefs, const FindExchange& find_exchange);

}  // namespace pvrdma::adapters
