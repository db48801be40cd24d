#include "fabric/remote_directory.h"

#include <algorithm>
#include <set>
#include <utility>

namespace pvrdma::fabric {

PathKind RemoteDirectory::kind_of_way(const RemoteHost& host) const {
  const bool by_hca = std::binary_search(host.hca_switches.begin(), host.hca_switches.end(), segment_.dvs);
  return host.path == PathKind::kHca && !by_hca ? PathKind::kTcp : host.path;
}

RemoteDirectory::Change RemoteDirectory::replace(const View& view, Instant now) {
  std::set<transport::HostId> kept;
  for (const RemoteHost& known : view.hosts) {
    kept.insert(known.id);
    hosts_[known.id] = known;
  }
  Change change;
  std::unordered_map<verbs::Gid, Held, verbs::GidHash> gids;
  for (const RemoteGid& each : view.gids) {
    if (each.segment != segment_) continue;
    if (!kept.contains(each.host)) continue;
    const auto host = hosts_.find(each.host);
    const Held held{&host->second, each.host, kind_of_way(host->second), each.is_moving};
    if (!gids.try_emplace(each.gid, held).second) continue;
    const auto before = gids_.find(each.gid);
    if (before != gids_.end() && before->second.id == held.id && before->second.kind == held.kind) continue;
    change.any = true;
    if (held.kind != PathKind::kNone) change.reachable.push_back(each.gid);
  }
  change.any = change.any || gids.size() != gids_.size();
  for (const auto& [gid, held] : gids_) {
    if (!gids.contains(gid)) left_[gid] = now + kLeftFor;
  }
  std::erase_if(left_, [&](const auto& entry) { return entry.second <= now || gids.contains(entry.first); });
  gids_ = std::move(gids);
  std::erase_if(hosts_, [&kept](const auto& entry) { return !kept.contains(entry.first); });
  std::sort(change.reachable.begin(), change.reachable.end());
  return change;
}

std::optional<RemoteDirectory::Found> RemoteDirectory::find(const verbs::Gid& gid) const {
  const auto it = gids_.find(gid);
  if (it == gids_.end()) return std::nullopt;
  return Found{it->second.id, it->second.kind};
}

bool RemoteDirectory::is_moving(const verbs::Gid& gid) const {
  const auto it = gids_.find(gid);
  return it != gids_.end() && it->second.is_moving;
}

bool RemoteDirectory::is_held_by(transport::HostId host, const verbs::Gid& gid) const {
  const auto found = find(gid);
  return found && found->host == host;
}

bool RemoteDirectory::is_same_host(transport::HostId a, transport::HostId b) const {
  const auto one = hosts_.find(a);
  const auto other = hosts_.find(b);
  return one != hosts_.end() && other != hosts_.end() && one->second.name == other->second.name;
}

const std::string* RemoteDirectory::holder_name(const verbs::Gid& gid) const {
  const auto it = gids_.find(gid);
  return it == gids_.end() ? nullptr : &it->second.host->name;
}

std::optional<PathInfo> RemoteDirectory::path_to(const verbs::Gid& gid, const Transports& transports) const {
  const auto it = gids_.find(gid);
  if (it == gids_.end()) return std::nullopt;
  const RemoteHost& host = *it->second.host;
  PathInfo path{it->second.kind, host.reason, host.name};
  if (path.kind == PathKind::kNone) return path;
  if (host.path == PathKind::kHca && path.kind == PathKind::kTcp)
    path.reason = "the switch's uplinks are not paired with the hosts' HCAs";
  const transport::Transport* transport = transports.way_to(host.id, path.kind);
  if (transport != nullptr && transport->kind() != path.kind) {
    path.kind = transport->kind();
    const transport::Transport* const better = transports.find(it->second.kind);
    path.reason = better != nullptr ? better->trouble(host.id) : "this host's HCA is not used";
  }
  const std::string trouble =
      transport != nullptr ? transport->trouble(host.id) : std::string(transport::Transport::kNotConnected);
  if (!trouble.empty()) path.reason += ", " + trouble;
  return path;
}

}  // namespace pvrdma::fabric
