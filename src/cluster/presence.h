// Presence: what this host puts into the store about itself: that it is a host of the inventory, that it is
// alive and what it has, which VMs are on, which GIDs its ports hold.
//
// Thread: one, blocking.
#pragma once

#include <optional>
#include <string>

#include "cluster/news_queue.h"
#include "control/config/config.h"
#include "control/discovery/discovery.h"
#include "control/plane/plane.h"

namespace pvrdma::cluster {

class Presence {
 public:
  // `version` is the daemon's. `instance`: that of the life before, which goes on in this one; empty: none.
  Presence(const control::ClusterConfig& config, std::string version, std::string instance = {});

  // Random: tells two lives of this host apart that have nothing in common.
  const std::string& instance() const { return instance_; }

  // Adds this host to the inventory, once in the daemon's life: a host that an admin removes stays removed.
  // When the store refuses, the next call tries again.
  void join_inventory(control::Plane& plane);
  // Looks for NICs and RDMA devices and publishes the host when they are others than at the last look.
  void publish_host(control::Plane& plane);
  // The records that a VM's last host has of it give way when it has come here on its own feet (vMotion).
  void publish(const GidNews::Changes& gids, control::Plane& plane) const;
  void publish(const PowerNews::Changes& vms, control::Plane& plane) const;

 private:
  const control::ClusterConfig config_;
  const std::string version_;
  const std::string instance_;
  std::optional<control::Discovered> discovered_;
  bool joined_ = false;
  bool failure_logged_ = false;
};

}  // namespace pvrdma::cluster
