#include "cluster/linger.h"

#include "control/model/rules.h"

namespace pvrdma::cluster {

void Linger::set_connected(bool connected, Instant now) {
  if (connected && !connected_) grace_end_ = now + kGrace;
  connected_ = connected;
}

bool Linger::protects(const std::string& host, Instant now) const {
  return !connected_ || now < grace_end_ || lapsed_.contains(host);
}

void Linger::note_lapses(const control::Inventory& newest, Instant now, const IsUp& is_up) {
  for (const auto& [name, live] : live_hosts_) {
    if (newest.live_hosts.contains(name)) continue;
    if (is_up(name)) lapsed_[name] = Instant::never();
  }
  // The host is back or out of reach: its broken connections may be made again.
  for (auto& [name, end] : lapsed_)
    if (end == Instant::never() && (newest.live_hosts.contains(name) || !is_up(name))) end = now + kGrace;
  std::erase_if(lapsed_, [&](const auto& lapsed) { return lapsed.second <= now; });
}

control::Inventory Linger::apply(const control::Inventory& newest, Instant now, const IsUp& is_up) {
  note_lapses(newest, now, is_up);
  control::Inventory answer = newest;
  keeps_ = false;
  for (const auto& [name, live] : live_hosts_) {
    if (name == host_ || !protects(name, now) || !answer.hosts.contains(name)) continue;
    if (answer.live_hosts.try_emplace(name, live).second) keeps_ = true;
  }
  for (const auto& [key, holder] : gids_) {
    if (answer.gids.contains(key) || !protects(holder.host, now) || !belongs(answer, key, holder)) continue;
    answer.gids.emplace(key, holder);
    keeps_ = true;
  }
  live_hosts_ = answer.live_hosts;
  gids_ = answer.gids;
  return answer;
}

// Whether the configuration still has the VM on the host and segment of the GID, and the daemon that wrote
// the record still runs.
bool Linger::belongs(const control::Inventory& inventory, const control::GidKey& key,
                     const control::GidHolder& holder) const {
  if (holder.host == host_) return false;
  const auto vm = inventory.vms.find(holder.port);
  if (vm == inventory.vms.end() || vm->second.host != holder.host) return false;
  if (control::segment_of(inventory, vm->second) != key.segment) return false;
  const auto before = live_hosts_.find(holder.host);
  const auto now = inventory.live_hosts.find(holder.host);
  return before != live_hosts_.end() && now != inventory.live_hosts.end() &&
         before->second.instance == now->second.instance;
}

}  // namespace pvrdma::cluster
