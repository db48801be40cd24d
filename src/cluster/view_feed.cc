#include "cluster/view_feed.h"

#include <algorithm>
#include <utility>

#include "base/events.h"

namespace pvrdma::cluster {
namespace {

void report_new_paths(const fabric::View& before, const fabric::View& now) {
  for (const fabric::RemoteHost& host : now.hosts) {
    const bool same = std::any_of(before.hosts.begin(), before.hosts.end(), [&host](const auto& old) {
      return old.id == host.id && old.path == host.path;
    });
    if (same) continue;
    events::tell(host.path == fabric::PathKind::kNone ? log::Level::kWarn : log::Level::kInfo,
                 {events::Type::kPath, events::Kind::kHost, host.name}, "path to host {}: {}: {}", host.name,
                 to_text(host.path), host.reason);
  }
}

std::set<std::string> live_hosts_of(const control::Inventory& inventory, const std::string& self) {
  std::set<std::string> names;
  for (const auto& [name, host] : inventory.live_hosts) {
    if (name != self) names.insert(name);
  }
  return names;
}

void report_hosts(const std::set<std::string>& before, const std::set<std::string>& now) {
  for (const std::string& name : now) {
    if (before.contains(name)) continue;
    events::tell(log::Level::kInfo, {events::Type::kHost, events::Kind::kHost, name}, "host {}: it is alive",
                 name);
  }
  for (const std::string& name : before) {
    if (now.contains(name)) continue;
    events::tell(log::Level::kWarn, {events::Type::kHost, events::Kind::kHost, name},
                 "host {}: it is no longer alive: it has stopped, it was removed, or its lease in the store "
                 "has ended and no connection to it is up",
                 name);
  }
}

}  // namespace

ViewFeed::ViewFeed(std::string host, std::string socket_folder, shard::Loop& loop, ViewSlot::Apply apply)
    : host_(std::move(host)),
      socket_folder_(std::move(socket_folder)),
      linger_(host_),
      slot_(loop, std::move(apply)) {}

void ViewFeed::set_host_up(transport::HostId host, bool up) {
  if (up) {
    up_.insert(host);
  } else {
    up_.erase(host);
  }
}

void ViewFeed::set_inventory(std::shared_ptr<const control::Inventory> newest, Instant now) {
  newest_ = std::move(newest);
  compute(now);
}

void ViewFeed::look_again(Instant now) {
  if (linger_.keeps() || owners_.is_due(now)) compute(now);
  slot_.retry();
}

void ViewFeed::compute(Instant now) {
  const auto is_up = [this](const std::string& host) { return up_.contains(ids_.of(host)); };
  owners_.begin_round();
  const control::Inventory inventory = linger_.apply(*newest_, now, is_up);
  std::set<std::string> live_hosts = live_hosts_of(inventory, host_);
  report_hosts(live_hosts_, live_hosts);
  live_hosts_ = std::move(live_hosts);
  ShardView view = compute_view(
      inventory, host_, socket_folder_, ids_,
      [&](const std::string& user, const std::string& group) { return owners_.find(user, group, now); });
  if (last_ == view) return;
  report_new_paths(last_ ? last_->fabric : fabric::View{}, view.fabric);
  last_ = view;
  slot_.put(std::move(view));
}

}  // namespace pvrdma::cluster
