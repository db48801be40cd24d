// ViewFeed: makes views for the shards from the store's inventory and the connections (shard_view.h,
// vm_shards.h, linger.h). A view that equals the shard's last one is not sent.
//
// Thread: one; `apply` runs on the shards.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cluster/known_owners.h"
#include "cluster/linger.h"
#include "cluster/news_queue.h"
#include "cluster/shard_view.h"
#include "cluster/view_slot.h"
#include "cluster/vm_shards.h"
#include "control/model/inventory.h"

namespace pvrdma::cluster {

class ViewFeed {
 public:
  // Runs on the shard of that number.
  using Apply = std::function<void(transport::ShardNumber shard, const ShardView& view)>;

  // `host` is this host's name, and `socket_folder` the folder of its adapters' sockets. `loops`: those of
  // all shards, as `shards` counts them. `apply` is called as ViewSlot::Apply.
  ViewFeed(std::string host, std::string socket_folder, VmShards shards,
           const std::vector<shard::Loop*>& loops, const Apply& apply);

  void set_store_connected(bool connected, Instant now) { linger_.set_connected(connected, now); }
  void set_up(const ShardLink& link, bool up);
  void set_on(const std::string& vm, bool on) { shards_.set_on(vm, on); }
  void set_inventory(std::shared_ptr<const control::Inventory> newest, Instant now);

  // As in VmShards.
  bool has(const std::string& vm) const { return shards_.has(vm); }
  Result<void> check(const std::string& vm, std::uint32_t shard) const { return shards_.check(vm, shard); }
  // A VM that has() was moved to that shard: sends both shards their new views.
  void move(const std::string& vm, std::uint32_t shard, Instant now);

  // Call it regularly: lingering records end with time, a missing user of this host may have been made, and
  // the shard may have had no room for a view.
  void look_again(Instant now);

 private:
  enum class Sent : bool { kNew, kAll };
  void compute(Instant now, Sent sent = Sent::kNew);

  const std::string host_;
  const std::string socket_folder_;
  HostIds ids_;
  KnownOwners owners_;
  std::set<ShardLink> up_;  // those with connections that are up
  Linger linger_;
  std::shared_ptr<const control::Inventory> newest_;
  std::set<std::string> live_hosts_;  // other hosts, at the last computed view
  VmShards shards_;
  std::vector<std::optional<ShardView>> last_;  // the last computed views, by shard
  std::deque<ViewSlot> slots_;                  // by shard
};

}  // namespace pvrdma::cluster
