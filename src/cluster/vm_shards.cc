#include "cluster/vm_shards.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "base/log.h"

namespace pvrdma::cluster {

void VmShards::set_on(const std::string& vm, bool on) {
  if (on) {
    on_.insert(vm);
  } else {
    on_.erase(vm);
  }
}

Result<void> VmShards::check(const std::string& vm, std::uint32_t shard) const {
  if (shard == 0) return {};
  if (!reported_.empty()) {
    return fail(
        ErrorKind::kConflict,
        fmt::format("VM {} has to be on the first shard, as all VMs of this host: {}", vm, reported_));
  }
  if (linked_.contains(vm)) {
    return fail(
        ErrorKind::kConflict,
        fmt::format("VM {} has to be on the first shard, which has the RoCE link of its network", vm));
  }
  return {};
}

std::vector<ShardView> VmShards::divide(const ShardView& whole, const control::Inventory& inventory) {
  const std::uint16_t count = count_.total();
  if (count == 1) return {whole};
  place(whole, inventory);
  std::vector<ShardView> views(count, whole);
  for (std::uint16_t i = 0; i < count; ++i) {
    std::erase_if(views[i].adapters, [&](const auto& each) { return shards_.at(each.config.name) != i; });
    if (i > 0) confine(views[i], inventory);
  }
  return views;
}

// Takes from the view what the first shard alone can do, or older releases do for a first shard alone.
void VmShards::confine(ShardView& view, const control::Inventory& inventory) {
  const auto is_older = [&inventory](const std::string& name) {
    const auto live = inventory.live_hosts.find(name);
    return live != inventory.live_hosts.end() && !live->second.shards;
  };
  std::erase_if(view.hca.peers, [&inventory](const transport::HcaPeer& peer) {
    return !hca_shards_of(inventory, peer.name);
  });
  std::erase_if(view.tcp.peers, [&](const transport::TcpPeer& peer) { return is_older(peer.name); });
  for (fabric::RemoteHost& host : view.fabric.hosts) {
    if (host.path == fabric::PathKind::kNone) continue;
    if (is_older(host.name)) {
      host.path = fabric::PathKind::kNone;
      host.reason = fmt::format("host {} runs an older release, which reaches the first shard of a host only",
                                host.name);
    } else if (host.path == fabric::PathKind::kHca && !hca_shards_of(inventory, host.name)) {
      host.path = fabric::PathKind::kTcp;
      host.reason = kOtherShardReason;
    }
    if (host.path != fabric::PathKind::kHca) host.hca_switches.clear();
  }
}

void VmShards::place(const ShardView& whole, const control::Inventory& inventory) {
  std::erase_if(shards_, [&inventory](const auto& each) { return !inventory.vms.contains(each.first); });
  const std::string why = why_first(inventory);
  report(why);
  linked_.clear();
  for (const adapters::WantedAdapter& adapter : whole.adapters) {
    const std::string& vm = adapter.config.name;
    if (has_link(whole, adapter)) linked_.insert(vm);
    const bool must_be_first = !why.empty() || linked_.contains(vm);
    const auto known = shards_.find(vm);
    if (known == shards_.end())
      shards_.emplace(vm, must_be_first ? 0 : emptiest(whole));
    else if (must_be_first && !is_on(vm, inventory))
      known->second = 0;
  }
}

std::string VmShards::why_first(const control::Inventory& inventory) const {
  for (const auto& [name, live] : inventory.live_hosts) {
    if (name != host_ && !live.shards)
      return fmt::format("host {} runs release {}, which knows of one only", name, live.version);
  }
  return {};
}

// The record also says so of a VM that is on its way here.
bool VmShards::is_on(const std::string& vm, const control::Inventory& inventory) const {
  return on_.contains(vm) || inventory.powered_on.contains(vm);
}

bool VmShards::has_link(const ShardView& whole, const adapters::WantedAdapter& adapter) const {
  return std::ranges::any_of(links_, [&](const control::RoceConfig& link) {
    const auto dvs = whole.switches.find(link.dvs);
    return dvs != whole.switches.end() && adapter.segment == transport::SegmentId{dvs->second, link.vlan};
  });
}

std::uint16_t VmShards::emptiest(const ShardView& whole) const {
  std::vector<std::size_t> vms(count_.ordinary);
  for (const auto& [vm, shard] : shards_) {
    if (whole.adapters_of_host.contains(vm) && !count_.is_ward(transport::ShardNumber(shard))) ++vms[shard];
  }
  return static_cast<std::uint16_t>(std::ranges::min_element(vms) - vms.begin());
}

void VmShards::report(const std::string& why_first) {
  if (why_first == reported_) return;
  reported_ = why_first;
  const std::uint16_t ordinary = count_.ordinary;
  if (ordinary == 1) return;
  if (why_first.empty())
    log::info("VMs that come to this host are spread over its {} shards from now on", ordinary);
  else
    log::warn("VMs that come to this host are all on the first of its {} shards: {}", ordinary, why_first);
}

}  // namespace pvrdma::cluster
