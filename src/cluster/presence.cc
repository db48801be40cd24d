#include "cluster/presence.h"

#include <fmt/core.h>
#include <random>
#include <utility>

#include "base/log.h"
#include "cluster/host_view.h"
#include "control/model/edits.h"
#include "control/model/records.h"

namespace pvrdma::cluster {
namespace {

std::string random_instance() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

std::string gid_key(const GidBinding& binding) {
  return control::gid_key({{binding.segment.dvs, binding.segment.vlan}, to_hex(binding.gid)});
}

}  // namespace

Presence::Presence(const control::ClusterConfig& config, std::string version)
    : config_(config), version_(std::move(version)), instance_(random_instance()) {}

void Presence::join_inventory(control::Plane& plane) {
  if (joined_) return;
  const auto done = plane.edit([this](control::Inventory& inventory) -> Result<void> {
    if (inventory.hosts.contains(config_.host_name)) return {};
    return control::edits::add_host(inventory, config_.host_name);
  });
  joined_ = done.has_value();
  if (!done && !std::exchange(failure_logged_, true)) {
    log::warn("host {} is not in the cluster's inventory yet: {}", config_.host_name, done.error().message);
  }
}

void Presence::publish_host(control::Plane& plane) {
  auto discovered = control::discover({.vmnics = config_.vmnics});
  if (discovered_ == discovered) return;
  discovered_ = std::move(discovered);
  control::LiveHost live;
  live.name = config_.host_name;
  live.instance = instance_;
  live.version = version_;
  live.socket_folder = config_.socket_folder;
  live.vmnics = discovered_->vmnics;
  live.rdma_devices = discovered_->rdma_devices;
  plane.set_live(control::live_host_key(config_.host_name), control::live_host_value(live));
}

void Presence::publish(const GidNews::Changes& gids, control::Plane& plane) const {
  for (const auto& [binding, port] : gids) {
    if (port) {
      plane.set_live(gid_key(binding), control::gid_value({*port, config_.host_name}), *port);
    } else {
      plane.clear_live(gid_key(binding));
    }
  }
}

void Presence::publish(const PowerNews::Changes& vms, control::Plane& plane) const {
  for (const auto& [vm, on] : vms) {
    if (on) {
      plane.set_live(control::power_key(vm), config_.host_name, vm);
    } else {
      plane.clear_live(control::power_key(vm));
    }
  }
}

}  // namespace pvrdma::cluster
