// Presence: what this host writes into the store about itself: that it is a host of the inventory, that it is
// alive, its devices, its VMs that are on, and the GIDs of its ports.
//
// Thread: one, blocking.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cluster/news_queue.h"
#include "control/config/config.h"
#include "control/discovery/discovery.h"
#include "control/plane/plane.h"

namespace pvrdma::cluster {

class Presence {
 public:
  // `version` is the daemon's, and `shards` the number of this host's, with its ward. `instance` is that of
  // an earlier process which this one continues; empty: there is none.
  Presence(const control::ClusterConfig& config, std::string version, std::uint16_t shards,
           std::string instance = {});

  // A random text that distinguishes independent processes of this host.
  const std::string& instance() const { return instance_; }

  // Adds this host to the inventory, once in a process: a host that an administrator removes stays removed.
  // If the store refuses, the next call tries again.
  void join_inventory(control::Plane& plane);
  // Looks for NICs and RDMA devices, and publishes the host if they have changed.
  void publish_host(control::Plane& plane);
  // Replaces the records of a VM's last host if the VM has come here by vMotion.
  void publish(const GidNews::Changes& gids, control::Plane& plane) const;
  void publish(const PowerNews::Changes& vms, control::Plane& plane) const;

 private:
  const control::ClusterConfig config_;
  const std::string version_;
  const std::uint16_t shards_;
  const std::string instance_;
  std::optional<control::Discovered> discovered_;
  bool joined_ = false;
  bool failure_logged_ = false;
};

}  // namespace pvrdma::cluster
