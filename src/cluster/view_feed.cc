#include "cluster/view_feed.h"

#include <algorithm>
#include <utility>

#include "base/events.h"

namespace pvrdma::cluster {
namespace {

// Of a host's shards, the first counts.
void report_new_paths(const fabric::View& before, const fabric::View& now) {
  std::set<std::string_view> known;
  for (const fabric::RemoteHost& host : now.hosts) {
    if (!known.insert(host.name).second) continue;
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

ViewFeed::ViewFeed(std::string host, std::string socket_folder, VmShards shards,
                   const std::vector<shard::Loop*>& loops, const Apply& apply)
    : host_(std::move(host)),
      socket_folder_(std::move(socket_folder)),
      linger_(host_),
      shards_(std::move(shards)) {
  for (std::size_t i = 0; i < loops.size(); ++i)
    slots_.emplace_back(*loops[i], [apply, shard = transport::ShardNumber(static_cast<std::uint16_t>(i))](
                                       const ShardView& view) { apply(shard, view); });
  last_.resize(loops.size());
}

void ViewFeed::set_up(const ShardLink& link, bool up) {
  if (up) {
    up_.insert(link);
  } else {
    up_.erase(link);
  }
}

void ViewFeed::set_inventory(std::shared_ptr<const control::Inventory> newest, Instant now) {
  newest_ = std::move(newest);
  compute(now);
}

void ViewFeed::move(const std::string& vm, std::uint32_t shard, Instant now) {
  shards_.move(vm, shard);
  compute(now, Sent::kAll);
}

void ViewFeed::look_again(Instant now) {
  if (linger_.keeps() || owners_.is_due(now)) compute(now);
  for (ViewSlot& slot : slots_) slot.retry();
}

void ViewFeed::compute(Instant now, Sent sent) {
  const auto is_up = [this](const std::string& host) {
    return std::ranges::any_of(up_, [&](const ShardLink& link) { return ids_.is_of(host, link.to); });
  };
  owners_.begin_round();
  const control::Inventory inventory = linger_.apply(*newest_, now, is_up);
  std::set<std::string> live_hosts = live_hosts_of(inventory, host_);
  report_hosts(live_hosts_, live_hosts);
  live_hosts_ = std::move(live_hosts);
  const ShardView whole = compute_view(
      inventory, host_, socket_folder_, ids_,
      [&](const std::string& user, const std::string& group) { return owners_.find(user, group, now); });
  std::vector<ShardView> views = shards_.divide(whole, inventory);
  report_new_paths(last_.front() ? last_.front()->fabric : fabric::View{}, views.front().fabric);
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (sent == Sent::kNew && last_[i] == views[i]) continue;
    last_[i] = views[i];
    slots_[i].put(std::move(views[i]));
  }
}

}  // namespace pvrdma::cluster
