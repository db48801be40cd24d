#include "cluster/presence.h"

#include <fmt/core.h>
#include <utility>

#include "base/hex.h"
#include "base/log.h"
#include "cluster/shard_view.h"
#include "control/model/edits.h"
#include "control/model/records.h"
#include "vocabulary/name.h"

namespace pvrdma::cluster {
namespace {

// How long this host's records stay for a VM that has moved, so that the new host replaces them and peers see
// no gap.
constexpr std::chrono::milliseconds kGiveWay{3000};
constexpr std::chrono::milliseconds kAtOnce{0};

control::GidKey gid_of(const GidBinding& binding) {
  return {{binding.segment.dvs, binding.segment.vlan}, to_hex(binding.gid.bytes)};
}

bool is_here(const control::Inventory& inventory, const std::string& vm, const std::string& host) {
  const auto found = inventory.vms.find(vm);
  return found != inventory.vms.end() && found->second.host == host;
}

// Whether the VM has left by vMotion. A VM that is on can change its host in no other way.
bool is_elsewhere(const control::Inventory& inventory, const std::string& vm, const std::string& host) {
  const auto found = inventory.vms.find(vm);
  return found != inventory.vms.end() && found->second.host != host;
}

// What a record says that `holder`, whose VM is here, takes over: another host's, or one of this host's last
// process, in which the VM was on another shard. Empty: there is no such record.
std::string left_behind(const control::Inventory& inventory, const control::GidKey& key,
                        const control::GidHolder& holder) {
  const auto found = inventory.gids.find(key);
  if (found == inventory.gids.end() || found->second.port != holder.port || found->second == holder ||
      !is_here(inventory, holder.port, holder.host))
    return {};
  return control::gid_value(found->second);
}

// What another host's record says about a VM that is here. Empty: there is no record.
std::string left_behind(const control::Inventory& inventory, const std::string& vm, const std::string& host) {
  const auto on = inventory.powered_on.find(vm);
  if (on == inventory.powered_on.end() || on->second == host || !is_here(inventory, vm, host)) return {};
  return on->second;
}

// What the record of an earlier process of this instance says. Empty: there is no record.
std::string last_life(const control::Inventory& inventory, const control::LiveHost& live) {
  const auto found = inventory.live_hosts.find(live.name);
  if (found == inventory.live_hosts.end() || found->second.instance != live.instance) return {};
  return control::live_host_value(found->second);
}

}  // namespace

Presence::Presence(const control::ClusterConfig& config, std::string version, std::uint16_t shards,
                   std::string instance)
    : config_(config),
      version_(std::move(version)),
      shards_(shards),
      instance_(instance.empty() ? random_name() : std::move(instance)) {}

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
  live.shards = shards_;
  live.hca_shards = shards_;
  plane.set_live(control::live_host_key(config_.host_name), control::live_host_value(live), {},
                 last_life(*plane.inventory(), live));
}

void Presence::publish(const GidNews::Changes& gids, control::Plane& plane) const {
  if (gids.empty()) return;
  const auto inventory = plane.inventory();
  for (const auto& [binding, port] : gids) {
    const control::GidKey key = gid_of(binding);
    if (port) {
      const std::optional<std::uint16_t> shard =
          port->shard.value == 0 ? std::nullopt : std::optional(port->shard.value);
      const control::GidHolder holder{port->name, config_.host_name, shard};
      plane.set_live(control::gid_key(key), control::gid_value(holder), port->name,
                     left_behind(*inventory, key, holder),
                     port->has_moved ? control::Pace::kAtOnce : control::Pace::kLimited);
    } else {
      const auto holder = inventory->gids.find(key);
      const bool goes_on =
          holder != inventory->gids.end() && is_elsewhere(*inventory, holder->second.port, config_.host_name);
      plane.clear_live(control::gid_key(key), goes_on ? kGiveWay : kAtOnce);
    }
  }
}

void Presence::publish(const PowerNews::Changes& vms, control::Plane& plane) const {
  if (vms.empty()) return;
  const auto inventory = plane.inventory();
  for (const auto& [vm, on] : vms) {
    if (on) {
      plane.set_live(control::power_key(vm), config_.host_name, vm,
                     left_behind(*inventory, vm, config_.host_name));
    } else {
      const bool goes_on = is_elsewhere(*inventory, vm, config_.host_name);
      plane.clear_live(control::power_key(vm), goes_on ? kGiveWay : kAtOnce);
    }
  }
}

}  // namespace pvrdma::cluster
