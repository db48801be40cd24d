#include "cluster/shard_view.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "base/hex.h"
#include "control/model/rules.h"
#include "fabric/reservations.h"

namespace pvrdma::cluster {
namespace {

std::optional<verbs::Gid> gid_of(const std::string& text) {
  verbs::Gid gid;
  if (!from_hex(text, gid.bytes)) return std::nullopt;
  return gid;
}

transport::SegmentId to_segment(const control::SegmentKey& key) {
  return {key.dvs_id, key.vlan};
}

bool arrives_at(const control::Vm& vm, const std::string& host) {
  return vm.motion && vm.motion->to == host;
}

std::vector<adapters::WantedAdapter> adapters_of(const control::Inventory& inventory, const std::string& host,
                                                 const std::string& socket_folder, const FindOwner& find) {
  const bool some_arrive = std::any_of(inventory.vms.begin(), inventory.vms.end(),
                                       [&host](const auto& entry) { return arrives_at(entry.second, host); });
  if (some_arrive) {
    auto adapters = adapters_of(control::with_arrivals(inventory, host), host, socket_folder, find);
    for (auto& each : adapters) each.is_arriving = inventory.vms.at(each.config.name).host != host;
    return adapters;
  }
  std::vector<adapters::WantedAdapter> adapters;
  for (const auto& [name, vm] : inventory.vms) {
    if (vm.host != host || !vm.adapter) continue;
    adapters::WantedAdapter wanted;
    wanted.config.name = name;
    wanted.config.socket = fmt::format("{}/{}{}", socket_folder, name, kSocketSuffix);
    wanted.config.mac = vm.adapter->mac;
    wanted.config.addresses = vm.adapter->addresses;
    if (const auto owner = find(vm.adapter->owner, vm.adapter->group)) {
      wanted.config.owner = *owner;
    } else {
      wanted.trouble = fmt::format("its socket cannot be given to its owner: {}", owner.error().message);
    }
    // An adapter that the rules forbid still exists, to report its refusal.
    const HardwareVersion version = adapter_of(vm.hardware_version).value_or(HardwareVersion::k13);
    const RoceVersion protocol = vm.adapter->protocol;
    wanted.config.hardware_version = version;
    wanted.config.roce = offers_roce(version, protocol) ? protocol : default_roce(version);
    wanted.config.profile = vm.adapter->profile;
    wanted.config.doorbells = vm.adapter->doorbells;
    wanted.memory_mib = vm.memory_mib;
    if (const auto attachment = control::attachment_of(inventory, vm)) {
      wanted.segment = to_segment(attachment->segment);
      wanted.config.mtu = attachment->mtu;
    }
    if (const auto checked = control::check_power_on(inventory, name); !checked)
      wanted.refusal = checked.error().message;
    adapters.push_back(std::move(wanted));
  }
  return adapters;
}

std::vector<fabric::ReservedGid> reserved_by(const control::Inventory& inventory) {
  std::vector<fabric::ReservedGid> reserved;
  for (const auto& [name, vm] : inventory.vms) {
    const auto segment = vm.adapter ? control::segment_of(inventory, vm) : std::nullopt;
    if (!segment) continue;
    for (const IpAddress& address : vm.adapter->addresses)
      reserved.push_back({to_segment(*segment), fabric::to_gid(address), name});
  }
  return reserved;
}

// Port groups with one VLAN are one network. Another version of the daemon may have given them different
// settings; then the one that does not allow native endpoints counts.
std::vector<fabric::NativeRule> natives_of(const control::Inventory& inventory) {
  std::vector<fabric::NativeRule> natives;
  for (const auto& [name, dvs] : inventory.switches) {
    std::map<std::uint16_t, const control::PortGroup*> by_vlan;  // null: not allowed
    for (const auto& [group_name, group] : dvs.portgroups) {
      const auto it = by_vlan.try_emplace(group.vlan, &group).first;
      if (!group.native_endpoints) it->second = nullptr;
    }
    for (const auto& [vlan, group] : by_vlan) {
      if (group != nullptr) natives.push_back({{dvs.id, vlan}, group->native_peers});
    }
  }
  return natives;
}

// The VM that holds the GID, if the record can be true: a GID made of a MAC belongs to the VM with that MAC,
// and a VM with a list of addresses has no others. The configuration, not the record, says on which host the
// VM is: after a motion the record may still name the old host. Null: the record is ignored.
const control::Vm* holder_of(const control::Inventory& inventory, const control::GidHolder& holder,
                             const verbs::Gid& gid) {
  const auto vm = inventory.vms.find(holder.port);
  if (vm == inventory.vms.end() || !vm->second.adapter) return nullptr;
  const control::VmAdapter& adapter = *vm->second.adapter;
  if (const auto mac = verbs::mac_in(gid)) return *mac == adapter.mac ? &vm->second : nullptr;
  const auto listed = fabric::to_gids(adapter.addresses);
  const bool may = listed.empty() || std::find(listed.begin(), listed.end(), gid) != listed.end();
  return may ? &vm->second : nullptr;
}

transport::ShardNumber shard_in(const control::GidHolder& holder) {
  return transport::ShardNumber(holder.shard.value_or(0));
}

// How many shards each host has: as its live record says, and at least those that its GIDs' records name.
std::map<std::string, std::uint16_t> shards_of_hosts(const control::Inventory& inventory) {
  std::map<std::string, std::uint16_t> shards;
  for (const auto& [name, host] : inventory.hosts) shards[name] = 1;
  for (const auto& [name, live] : inventory.live_hosts) shards[name] = live.shards.value_or(1);
  for (const auto& [key, holder] : inventory.gids) {
    std::uint16_t& known = shards[holder.host];
    known = std::max<std::uint16_t>(known, shard_in(holder).value + 1);
  }
  return shards;
}

}  // namespace

transport::HostId HostIds::of(const std::string& host, transport::ShardNumber shard) {
  const auto next = static_cast<std::uint32_t>(ids_.size() + 1);
  const auto [entry, is_new] = ids_.try_emplace({host, shard}, transport::HostId(next));
  if (is_new) hosts_.push_back(host);
  return entry->second;
}

std::optional<std::uint16_t> hca_shards_of(const control::Inventory& inventory, const std::string& host) {
  const auto live = inventory.live_hosts.find(host);
  return live != inventory.live_hosts.end() ? live->second.hca_shards : std::nullopt;
}

ShardView compute_view(const control::Inventory& inventory, const std::string& host,
                       const std::string& socket_folder, HostIds& ids, const FindOwner& find) {
  if (!inventory.live_hosts.contains(host)) {  // its lease has lapsed, or its record is not there yet
    control::Inventory alive = inventory;
    alive.live_hosts[host].name = host;
    return compute_view(alive, host, socket_folder, ids, find);
  }
  ShardView view;
  view.adapters = adapters_of(inventory, host, socket_folder, find);
  for (const adapters::WantedAdapter& each : view.adapters) view.adapters_of_host.insert(each.config.name);
  const auto self = inventory.hosts.find(host);
  if (self != inventory.hosts.end()) {
    const control::Ruleset ruleset = self->second.effective_ruleset();
    const IpAddress* address = self->second.tagged_address();
    if (ruleset.enabled && address != nullptr) view.tcp.address = *address;
    if (address != nullptr) view.hca.tagged = fabric::to_gid(*address);
    view.tcp.allow_all = ruleset.allow_all;
    view.tcp.allowed = ruleset.allowed;
  }
  const std::map<std::string, std::uint16_t> shards = shards_of_hosts(inventory);
  for (const auto& [name, other] : inventory.hosts) {
    if (name == host) continue;
    const control::HostPathChoice choice = control::choose_path(inventory, host, name);
    const bool tcp = choice.kind == control::HostPath::kTcp;
    for (std::uint16_t i = 0; i < shards.at(name); ++i) {
      const transport::ShardNumber shard(i);
      const transport::HostId id = ids.of(name, shard);
      view.fabric.hosts.push_back({.id = id,
                                   .name = name,
                                   .path = tcp ? fabric::PathKind::kTcp : fabric::PathKind::kNone,
                                   .reason = choice.reason,
                                   .hca_switches = {}});
      if (tcp) view.tcp.peers.push_back({id, name, *other.tagged_address(), transport::kTcpPort, shard});
      if (!choice.hca) continue;
      fabric::RemoteHost& there = view.fabric.hosts.back();
      if (i >= hca_shards_of(inventory, name).value_or(1)) {
        there.reason = kOtherShardReason;
        continue;
      }
      there.path = fabric::PathKind::kHca;
      there.hca_switches = choice.hca->switches;
      view.hca.device = choice.hca->device;  // the same for all
      view.hca.peers.push_back({id, name, shard});
    }
  }
  view.fabric.reserved = reserved_by(inventory);
  view.fabric.natives = natives_of(inventory);
  for (const auto& [name, dvs] : inventory.switches) view.switches.emplace(name, dvs.id);
  for (const auto& [key, holder] : inventory.gids) {
    const auto gid = gid_of(key.gid);
    const control::Vm* const vm = gid ? holder_of(inventory, holder, *gid) : nullptr;
    if (vm == nullptr || vm->host == host || !inventory.hosts.contains(vm->host)) continue;
    // After a motion, the record says nothing of a shard yet.
    const bool is_late = vm->host != holder.host;
    const transport::HostId id = ids.of(vm->host, is_late ? transport::ShardNumber() : shard_in(holder));
    view.fabric.gids.push_back({to_segment(key.segment), *gid, id, vm->motion || is_late});
  }
  return view;
}

}  // namespace pvrdma::cluster
