#include "fabric/remote_directory.h"

#include <algorithm>
#include <set>
#include <utility>

namespace pvrdma::fabric {

void RemoteDirectory::set_transport(transport::HostTransport* transport) {
  transport_ = transport;
  for (auto& [id, host] : hosts_) {
    host.way.channel.reset();
    open_channel(host);
  }
}

RemoteDirectory::Change RemoteDirectory::replace(const View& view) {
  std::set<transport::HostId> kept;
  for (const RemoteHost& known : view.hosts) {
    kept.insert(known.id);
    Host& host = hosts_[known.id];
    host.known = known;
    host.way.kind = known.path;
    open_channel(host);
  }
  std::erase_if(hosts_, [&kept](const auto& entry) { return !kept.contains(entry.first); });
  Change change;
  std::unordered_map<verbs::Gid, Held, verbs::GidHash> gids;
  for (const RemoteGid& each : view.gids) {
    if (each.segment != segment_) continue;
    const auto host = hosts_.find(each.host);
    if (host == hosts_.end()) continue;
    const Held held{&host->second, each.host, host->second.known.path};
    if (!gids.try_emplace(each.gid, held).second) continue;
    const auto before = gids_.find(each.gid);
    if (before != gids_.end() && before->second.id == held.id && before->second.kind == held.kind) continue;
    change.any = true;
    if (held.kind != PathKind::kNone) change.reachable.push_back(each.gid);
  }
  change.any = change.any || gids.size() != gids_.size();
  gids_ = std::move(gids);
  std::sort(change.reachable.begin(), change.reachable.end());
  return change;
}

void RemoteDirectory::open_channel(Host& host) {
  if (host.known.path == PathKind::kNone || host.way.channel != nullptr || transport_ == nullptr) return;
  host.way.channel = transport_->open(host.known.id, segment_);
}

const Way* RemoteDirectory::find(const verbs::Gid& gid) const {
  const auto it = gids_.find(gid);
  return it == gids_.end() ? nullptr : &it->second.host->way;
}

std::optional<transport::HostId> RemoteDirectory::holder(const verbs::Gid& gid) const {
  const auto it = gids_.find(gid);
  if (it == gids_.end()) return std::nullopt;
  return it->second.id;
}

const std::string* RemoteDirectory::holder_name(const verbs::Gid& gid) const {
  const auto it = gids_.find(gid);
  return it == gids_.end() ? nullptr : &it->second.host->known.name;
}

std::optional<Path> RemoteDirectory::path_to(const verbs::Gid& gid) const {
  const auto it = gids_.find(gid);
  if (it == gids_.end()) return std::nullopt;
  const Host& host = *it->second.host;
  Path path{host.known.path, host.known.reason, host.known.name};
  if (path.kind == PathKind::kNone) return path;
  if (transport_ == nullptr || !transport_->is_up(host.known.id)) path.reason += ", not connected now";
  return path;
}

}  // namespace pvrdma::fabric
