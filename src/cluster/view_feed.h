// ViewFeed: makes views for the shard from the store's inventory and the connections (shard_view.h,
// linger.h). A view that equals the last one is not sent.
//
// Thread: one; ViewSlot::Apply runs on the shard.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"
#include "cluster/known_owners.h"
#include "cluster/linger.h"
#include "cluster/shard_view.h"
#include "cluster/view_slot.h"
#include "control/model/inventory.h"

namespace pvrdma::cluster {

class ViewFeed {
 public:
  // `host` is this host's name, and `socket_folder` the folder of its adapters' sockets. `loop` and `apply`
  // are ViewSlot's.
  ViewFeed(std::string host, std::string socket_folder, shard::Loop& loop, ViewSlot::Apply apply);

  void set_store_connected(bool connected, Instant now) { linger_.set_connected(connected, now); }
  void set_host_up(transport::HostId host, bool up);
  void set_inventory(std::shared_ptr<const control::Inventory> newest, Instant now);

  // Call it regularly: lingering records end with time, a missing user of this host may have been made, and
  // the shard may have had no room for a view.
  void look_again(Instant now);

 private:
  void compute(Instant now);

  const std::string host_;
  const std::string socket_folder_;
  HostIds ids_;
  KnownOwners owners_;
  std::set<transport::HostId> up_;  // hosts with connections that are up
  Linger linger_;
  std::shared_ptr<const control::Inventory> newest_;
  std::set<std::string> live_hosts_;  // other hosts, at the last computed view
  std::optional<ShardView> last_;     // the last computed view
  ViewSlot slot_;
};

}  // namespace pvrdma::cluster
