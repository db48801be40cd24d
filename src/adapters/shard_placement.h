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
// on. The fourth step cannot fail and is not refused.
//
// A shard may be late, most of all the ward. So the new shard is asked whether it answers before the adapter
// stops. Each step is waited for no longer than kShardPatience, except a third one that has begun. A first or
// second step that ends later is undone on its shard.
//
// In a cluster, the shards get no view of it meanwhile (views.h). That is waited for before the shards are
// asked, because a view may take long.
//
// An operator's place() chooses the shard: the daemon itself leaves the adapter there as long as it runs,
// unless the adapter delays others.
//
// Thread: any but a shard's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "adapters/placement.h"
#include "adapters/shard_balance.h"
#include "adapters/shards.h"
#include "adapters/views.h"

namespace pvrdma::adapters {

// Why an adapter must stay on its shard now (kConflict): what the shards themselves do not know.
using CheckIdle = std::function<Result<void>(const std::string& adapter)>;

class ShardPlacement final : public Placement {
 public:
  // `shards` and `views` are borrowed. `views` is null outside a cluster.
  ShardPlacement(const Shards& shards, CheckIdle check_idle, Views* views = nullptr)
      : shards_(shards), check_idle_(std::move(check_idle)), views_(views) {}

  Result<Placed> place(const std::string& adapter, std::uint32_t shard) override;
  // A move by the daemon itself. As place(); also kConflict: an operator has chosen the adapter's shard.
  Result<Placed> relieve(const Relief& relief);
  // The daemon moves an adapter to the ward, which the host has, whoever has chosen the adapter's shard.
  // `why` ends the sentence about it. As place().
  Result<Placed> put_into_ward(const std::string& adapter, std::string_view why);

  struct Counts {
    std::uint64_t moves = 0;
    std::uint64_t own_moves = 0;   // of them by relieve()
    std::uint64_t ward_moves = 0;  // of them by put_into_ward()
  };
  Counts counts() const { return {moves_, own_moves_, ward_moves_}; }

 private:
  enum class Leader : std::uint8_t { kOperator, kBalancer, kWard };
  Result<Placed> go(const std::string& adapter, std::uint32_t shard, Leader leader);
  Result<void> check_answers(std::uint32_t shard, Duration patience) const;
  // The part in which other threads do not ask the shards. Empty: the adapter is to be moved, and must not.
  Result<std::optional<Placed>> go_if(const std::string& adapter, std::uint32_t shard, Leader leader,
                                      bool may_move);
  // Whether balancing may move the adapter, which is on that shard. Called in a Standstill.
  Result<void> check_balancing(const std::string& adapter, std::size_t shard) const;

  const Shards& shards_;
  const CheckIdle check_idle_;
  Views* const views_;
  std::set<std::string> chosen_;  // adapters whose shard an operator has chosen; used in a Standstill
  std::atomic<std::uint64_t> moves_ = 0;
  std::atomic<std::uint64_t> own_moves_ = 0;
  std::atomic<std::uint64_t> ward_moves_ = 0;
};

}  // namespace pvrdma::adapters
