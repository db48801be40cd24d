#include "sim/directory.h"

#include <algorithm>
#include <string>

#include "sim/lane_network.h"
#include "sim/operation.h"

namespace pvrdma::sim {

Directory::Directory(std::uint64_t seed, std::uint32_t hosts, transport::SegmentId segment,
                     const Options& options)
    : random_(seed), segment_(segment), options_(options), hosts_(hosts) {}

void Directory::write(std::uint32_t host, Write what, const verbs::Gid& gid, Instant now,
                      std::uint32_t shard) {
  Host& writer = hosts_[host];
  writer.last_write = std::max(writer.last_write, now + random_.up_to(kPublishMax));
  agenda_.emplace(writer.last_write,
                  Change{.host = host, .life = writer.life, .write = what, .gid = gid, .shard = shard});
}

void Directory::started(std::uint32_t host, Instant now) {
  Host& starting = hosts_[host];
  starting = Host{.alive = starting.alive, .life = starting.life + 1};
  write(host, Write::kStart, {}, now);
}

void Directory::died(std::uint32_t host, Instant now) {
  const std::uint32_t life = hosts_[host].life;
  std::erase_if(agenda_, [&](const auto& entry) {
    const auto* change = std::get_if<Change>(&entry.second);
    return change != nullptr && change->host == host;
  });
  agenda_.emplace(now + random_.up_to(kLeaseMax),
                  Change{.host = host, .life = life, .write = Write::kLapse, .gid = {}, .shard = 0});
}

void Directory::bound(std::uint32_t host, const verbs::Gid& gid, Instant now, std::uint32_t shard) {
  write(host, Write::kBind, gid, now, shard);
}

void Directory::moved(std::uint32_t host, const verbs::Gid& gid, Instant now, std::uint32_t shard) {
  write(host, Write::kMove, gid, now, shard);
}

void Directory::unbound(std::uint32_t host, const verbs::Gid& gid, Instant now) {
  write(host, Write::kUnbind, gid, now);
}

void Directory::set_ruleset(std::uint32_t host, bool enabled, Instant now) {
  write(host, enabled ? Write::kRulesetOn : Write::kRulesetOff, {}, now);
}

void Directory::drop_gids(std::uint32_t host) {
  std::erase_if(gids_, [host](const auto& entry) { return entry.second.host == host; });
}

void Directory::apply(const Change& change, Instant now) {
  Host& host = hosts_[change.host];
  if (change.life != host.life) return;  // a new daemon has started since
  switch (change.write) {
    case Write::kStart:
      drop_gids(change.host);
      host.alive = true;
      break;
    case Write::kLapse:
      drop_gids(change.host);
      host.alive = false;
      break;
    case Write::kBind: {
      const auto [it, inserted] = gids_.try_emplace(change.gid, change.host, change.shard);
      require(inserted, "GID " + change.gid.to_string() + " is held by two hosts");
      break;
    }
    case Write::kMove: {
      const auto held = gids_.find(change.gid);
      require(held != gids_.end() && held->second.host == change.host,
              "GID " + change.gid.to_string() + " moved on a host that did not hold it");
      held->second.shard = change.shard;
      break;
    }
    case Write::kUnbind:
      require(gids_.erase(change.gid) == 1,
              "GID " + change.gid.to_string() + " was given up by a host that did not hold it");
      break;
    case Write::kRulesetOn:
    case Write::kRulesetOff:
      host.ruleset = change.write == Write::kRulesetOn;
      break;
  }
  ++version_;
  for (std::uint32_t to = 0; to < hosts_.size(); ++to) {
    if (!hosts_[to].alive) continue;
    agenda_.emplace(now + random_.up_to(kViewMax),
                    Arrival{.host = to, .life = hosts_[to].life, .version = version_, .view = view_for(to)});
  }
}

std::vector<std::pair<std::uint32_t, fabric::View>> Directory::take_due(Instant now) {
  std::vector<std::pair<std::uint32_t, fabric::View>> due;
  while (next_event() <= now) {
    auto event = agenda_.extract(agenda_.begin());
    if (const auto* change = std::get_if<Change>(&event.mapped())) {
      apply(*change, now);
      continue;
    }
    auto& arrival = std::get<Arrival>(event.mapped());
    Host& host = hosts_[arrival.host];
    if (arrival.life != host.life || arrival.version <= host.seen) continue;
    host.seen = arrival.version;
    due.emplace_back(arrival.host, std::move(arrival.view));
  }
  return due;
}

fabric::View Directory::view_for(std::uint32_t host) const {
  fabric::View view;
  for (std::uint32_t other = 0; other < hosts_.size(); ++other) {
    if (other == host || !hosts_[other].alive) continue;
    const bool open = hosts_[host].ruleset && hosts_[other].ruleset;
    for (std::uint32_t shard = 0; shard < options_.shards; ++shard) {
      view.hosts.push_back({.id = LaneNetwork::id_of(other * options_.shards + shard),
                            .name = "host-" + std::to_string(other),
                            .path = !open           ? fabric::PathKind::kNone
                                    : options_.hcas ? fabric::PathKind::kHca
                                                    : fabric::PathKind::kTcp,
                            .reason = open ? "both hosts may" : "ruleset pvrdma is disabled",
                            .hca_switches = {segment_.dvs}});
    }
  }
  for (const auto& [gid, holder] : gids_) {
    if (holder.host == host) continue;
    view.gids.push_back({.segment = segment_,
                         .gid = gid,
                         .host = LaneNetwork::id_of(holder.host * options_.shards + holder.shard)});
  }
  if (options_.natives) view.natives.push_back({segment_, {}});
  return view;
}

}  // namespace pvrdma::sim
