// VmShards: decides which shard of this host serves which of the cluster's VMs, and makes each shard's view.
//
// A VM comes to the shard with the fewest VMs, and stays there. If it leaves the host and comes back, it
// comes to the same shard, where its last adapter may still have a client. Some VMs have to be on the first
// shard, which has the links to native endpoints, and which is the only one that older daemons know of. If
// that becomes so while a VM is on, it is moved when it is off. An operator or the daemon may move a VM to
// another shard, and it stays there then. It comes to the ward in no other way.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/shard_view.h"
#include "control/config/config.h"
#include "control/model/inventory.h"

namespace pvrdma::cluster {

// How many shards a host has.
struct ShardCount {
  std::uint16_t ordinary = 1;  // to which VMs are dealt out
  bool has_ward = false;       // one more, the last one

  std::uint16_t total() const { return static_cast<std::uint16_t>(ordinary + (has_ward ? 1 : 0)); }
  bool is_ward(transport::ShardNumber shard) const { return shard.value >= ordinary; }
};

class VmShards {
 public:
  // `host` is this host's name. `links`: its links to native endpoints.
  VmShards(std::string host, ShardCount shards, std::vector<control::RoceConfig> links)
      : host_(std::move(host)), count_(shards), links_(std::move(links)) {}

  // Whether an adapter of this host has that VM's VMM. The store may say so later, or lose it with a lease.
  void set_on(const std::string& vm, bool on);

  // Whether a view has placed the VM on a shard.
  bool has(const std::string& vm) const { return shards_.contains(vm); }
  // Whether a VM that has() may be on that shard, as of the last views. Errors: kConflict.
  Result<void> check(const std::string& vm, std::uint32_t shard) const;
  // A VM that has() is on that shard from now on.
  void move(const std::string& vm, std::uint32_t shard) {
    shards_.at(vm) = static_cast<std::uint16_t>(shard);
  }

  // The views of all shards, by number. `whole` is compute_view()'s of `inventory`.
  std::vector<ShardView> divide(const ShardView& whole, const control::Inventory& inventory);

 private:
  static void confine(ShardView& view, const control::Inventory& inventory);
  void place(const ShardView& whole, const control::Inventory& inventory);
  // Why all VMs have to be on the first shard: a clause. Empty: they need not.
  std::string why_first(const control::Inventory& inventory) const;
  bool is_on(const std::string& vm, const control::Inventory& inventory) const;
  bool has_link(const ShardView& whole, const adapters::WantedAdapter& adapter) const;
  std::uint16_t emptiest(const ShardView& whole) const;
  void report(const std::string& why_first);

  const std::string host_;
  const ShardCount count_;
  const std::vector<control::RoceConfig> links_;
  std::map<std::string, std::uint16_t> shards_;  // by VM of the cluster that is or was here
  std::set<std::string> on_;                     // VMs
  std::set<std::string> linked_;                 // VMs whose segment has a link, as of the last views
  std::string reported_;                         // why_first(), as it was told last
};

}  // namespace pvrdma::cluster
