// ViewFeed: turns what the store and the connections say into views for the shard (host_view.h, linger.h).
// An equal view is not sent again.
//
// Thread: one, but as ViewSlot's for what runs on the shard.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"
#include "cluster/host_view.h"
#include "cluster/linger.h"
#include "cluster/view_slot.h"
#include "control/model/inventory.h"

namespace pvrdma::cluster {

class ViewFeed {
 public:
  // For the host of this name, whose adapters' sockets are in `socket_folder`. `loop` and `apply`:
  // ViewSlot's.
  ViewFeed(std::string host, std::string socket_folder, shard::Loop& loop, ViewSlot::Apply apply);

  void set_store_connected(bool connected, Instant now) { linger_.set_connected(connected, now); }
  void set_host_up(transport::HostId host, bool up);
  void set_inventory(std::shared_ptr<const control::Inventory> newest, Instant now);

  // To be called now and then: what lingers ends with time, and the shard may have had no room for a view.
  void look_again(Instant now);

 private:
  void compute(Instant now);

  const std::string host_;
  const std::string socket_folder_;
  HostIds ids_;
  std::set<transport::HostId> up_;  // connections to them stand
  Linger linger_;
  std::shared_ptr<const control::Inventory> newest_;
  std::optional<HostView> last_;  // computed
  ViewSlot slot_;
};

}  // namespace pvrdma::cluster
