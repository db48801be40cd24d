#include "fabric/switch.h"

#include <algorithm>
#include <fmt/core.h>
#include <functional>
#include <new>
#include <string_view>

#include "base/check.h"
#include "fabric/port.h"

namespace pvrdma::fabric {
namespace {

constexpr std::uint32_t kDuplicateLogBurst = 10;
constexpr Duration kDuplicateLogInterval = std::chrono::seconds(10);
constexpr Duration kNewsTime = std::chrono::seconds(2);
constexpr std::string_view kWayOut = "give the VMs different MACs and addresses";

bool has_it(const std::optional<HostGids::Holder>& port) {
  return port && port->reach != HostGids::Reach::kLost;
}

// One clause and a way out, after "port x wants GID y, ".
std::string describe(const HostGids::Refusal& refusal) {
  switch (refusal.reason) {
    case HostGids::Refusal::Reason::kAddressOfAnother:
      return fmt::format("which is among the addresses of port {}: give the VMs different addresses",
                         refusal.port);
    case HostGids::Refusal::Reason::kHeld:
      return fmt::format("which port {} holds: {}", refusal.port, kWayOut);
    case HostGids::Refusal::Reason::kFull:
      return "for which this host's table of GIDs has no place: bind fewer GIDs";
  }
  return {};
}

std::string_view why_no_path(HostGids::Reach reach) {
  switch (reach) {
    case HostGids::Reach::kLinkDown:
      return "the link of the port that holds the GID is down";
    case HostGids::Reach::kDetached:
      return "no adapter is behind the port that holds the GID";
    case HostGids::Reach::kStopped:
      return "the adapter behind the port that holds the GID is stopped";
    case HostGids::Reach::kWorks:
    case HostGids::Reach::kLost:
      break;
  }
  return {};
}

}  // namespace

Switch::Switch(transport::SegmentId segment, const Transports& transports, const Clock& clock, HostGids& host,
               transport::ShardNumber shard, FabricObserver* observer)
    : segment_(segment),
      transports_(transports),
      host_(host),
      shard_(shard),
      generation_(host.generation(segment)),
      observer_(observer),
      remote_(segment),
      reservations_(segment),
      clock_(clock),
      duplicate_log_(kDuplicateLogBurst, kDuplicateLogInterval) {}

Switch::~Switch() {
  PVRDMA_CHECK(ports_.empty(), "a switch outlives its ports");
}

// Engines only mark QPs as ready here, so no port is added or removed meanwhile.
template <typename Visit>
void Switch::each_engine(Visit visit) {
  for (Port* port : ports_) {
    if (port->takes_messages()) visit(*port->engine_);
  }
}

void Switch::set_view(const View& view) {
  reservations_.replace(view);
  if (segment_ != transport::SegmentId{}) {
    const auto rule = std::find_if(view.natives.begin(), view.natives.end(),
                                   [this](const NativeRule& each) { return each.segment == segment_; });
    set_native(rule != view.natives.end() ? std::optional(*rule) : std::nullopt);
  }
  const Instant now = clock_.now();
  const RemoteDirectory::Change change = remote_.replace(view, now);
  if (!change.any && !looks_again_) return;
  // Nothing below may fail: the directory reports a change only once.
  look_for_lost();
  changed();
  const auto affected = [&change](const verbs::Endpoint& /*own*/, const verbs::Endpoint& peer) {
    return std::binary_search(change.reachable.begin(), change.reachable.end(), peer.gid);
  };
  each_engine([&](verbs::Engine& engine) {
    if (!change.reachable.empty()) engine.on_path_restored(affected, now);
    engine.on_path_ready();  // senders that waited for the old path have another one, or none to wait for
  });
}

void Switch::set_native(std::optional<NativeRule> rule) {
  if (native_ == rule) return;
  native_ = std::move(rule);
  changed();
}

void Switch::look_for_lost() {
  const Instant now = clock_.now();
  looks_again_ = false;
  for (auto& [gid, binding] : holders_) {
    const std::string* host = remote_.holder_name(gid);
    // A stopped port may be about to move to that host, and that host may not yet know of a port that has
    // just arrived.
    if (host != nullptr && !binding.is_lost &&
        (binding.port->is_stopped() || binding.port->has_just_come(now))) {
      looks_again_ = true;
      continue;
    }
    if (binding.is_lost == (host != nullptr)) continue;
    binding.is_lost = host != nullptr;
    if (binding.is_lost) ++gids_lost_;
    host_.set_reach(segment_, gid, binding.port->number_,
                    binding.is_lost ? HostGids::Reach::kLost : binding.port->reach());
    if (duplicate_log_.allow(now)) report_lost(gid, binding, host);
  }
}

// `host` is null when the port has the GID back.
void Switch::report_lost(const verbs::Gid& gid, const Binding& binding, const std::string* host) {
  try {
    if (host != nullptr) {
      log::warn(
          "switch: port {} has lost GID {} to host {}, which bound it at the same time: it is not used here; "
          "give the VMs different addresses",
          binding.port->name(), gid.to_string(), *host);
    } else {
      log::info("switch: GID {} belongs to port {} again", gid.to_string(), binding.port->name());
    }
  } catch (const std::bad_alloc&) {  // only a log line is lost
  }
}

const std::string* Switch::lost_to(const Port& port, const verbs::Gid& gid) const {
  return is_bound(port, gid) && !holds(port, gid) ? remote_.holder_name(gid) : nullptr;
}

bool Switch::is_back_soon(const verbs::Gid& gid, Instant now) const {
  if (const auto it = holders_.find(gid); it != holders_.end() && !it->second.is_lost)
    return it->second.port->is_stopped();
  if (const auto sibling = sibling_holder(gid)) return sibling->reach == HostGids::Reach::kStopped;
  if (const auto found = remote_.find(gid))
    return remote_.is_moving(gid) || (found->kind != PathKind::kNone && transports_.is_up_soon(found->host));
  const auto departed = departed_.find(gid);
  return departed != departed_.end() && now < departed->second;
}

std::optional<verbs::PeerPlace> Switch::place_of(const verbs::Gid& gid) const {
  if (shard_of(gid)) return verbs::PeerPlace(0);
  const auto remote = remote_.find(gid);
  return remote ? std::optional(verbs::PeerPlace(remote->host.value)) : std::nullopt;
}

void Switch::note_departure(const Port& port) {
  const Instant now = clock_.now();
  std::erase_if(departed_, [now](const auto& entry) { return entry.second <= now; });
  for (const auto& [gid, binding] : holders_) {
    if (binding.port == &port) departed_[gid] = now + kNewsTime;
  }
}

void Switch::paths_ready() {
  each_engine([](verbs::Engine& engine) { engine.on_path_ready(); });
}

void Switch::paths_restored(transport::HostId host, Instant now) {
  const auto affected = [this, host](const verbs::Endpoint& /*own*/, const verbs::Endpoint& peer) {
    return remote_.is_held_by(host, peer.gid);
  };
  each_engine([&](verbs::Engine& engine) { engine.on_path_restored(affected, now); });
}

std::uint64_t Switch::works_again(const Port& port) {
  const Instant now = clock_.now();
  std::uint64_t looked_through = 0;
  const auto affected = [this, &port](const verbs::Endpoint& /*own*/, const verbs::Endpoint& peer) {
    return holds(port, peer.gid);
  };
  each_engine([&](verbs::Engine& engine) {
    looked_through += engine.object_counts().qps;
    engine.on_path_restored(affected, now);
  });
  host_.works_again(shard_, segment_, port.number_);
  return looked_through;
}

void Switch::paths_restored(transport::ShardNumber shard, std::optional<HostGids::PortNumber> port,
                            Instant now) {
  const auto affected = [&](const verbs::Endpoint& /*own*/, const verbs::Endpoint& peer) {
    const auto holder = sibling_holder(peer.gid);
    return holder && holder->shard == shard && (!port || holder->port == *port);
  };
  // By reference: a copy would need memory, and this is told only once.
  each_engine([&](verbs::Engine& engine) { engine.on_path_restored(std::cref(affected), now); });
}

Switch::Admission Switch::admit(transport::HostId host, const verbs::Gid& source,
                                const verbs::Gid& destination) const {
  const auto it = holders_.find(destination);
  if (it == holders_.end() || it->second.is_lost) return {transport::Delivery::kUnknownGid, nullptr, nullptr};
  const auto held = remote_.find(source);
  if (!held || held->host != host) {
    const bool is_anothers = holders_.contains(source) || sibling_holder(source) ||
                             (held && !remote_.is_same_host(held->host, host));
    return {transport::Delivery::kForeignSource, is_anothers ? nullptr : it->second.port, nullptr};
  }
  return {transport::Delivery::kDelivered, it->second.port, transports_.way_to(host, held->kind)};
}

Port* Switch::admit(transport::ShardNumber from, const verbs::Gid& source,
                    const verbs::Gid& destination) const {
  const auto it = holders_.find(destination);
  if (it == holders_.end() || it->second.is_lost) return nullptr;
  const auto holder = sibling_holder(source);
  return holder && holder->shard == from ? it->second.port : nullptr;
}

Switch::NativeAdmission Switch::admit_native(const verbs::Gid& source, const verbs::Gid& destination,
                                             const Mac& destination_mac) const {
  const auto it = holders_.find(destination);
  if (it == holders_.end() || it->second.is_lost) return {transport::Entry::kUnknownGid, nullptr};
  const Port& port = *it->second.port;
  if (port.identity().mac != destination_mac) return {transport::Entry::kUnknownGid, nullptr};
  if (holders_.contains(source) || sibling_holder(source) || remote_.find(source) ||
      remote_.has_left(source, clock_.now()))
    return {transport::Entry::kForeignSource, nullptr};
  if (!why_not_native(source, &port).empty()) return {transport::Entry::kNotAllowed, nullptr};
  return {transport::Entry::kAdmitted, it->second.port};
}

std::string_view Switch::why_not_native(const verbs::Gid& gid, const Port* from) const {
  if (!native_) return "no port holds the GID";
  if (!native_->allows(gid))
    return "no port of the cluster holds the GID, nor do the native peers of the port group";
  if (from != nullptr && !from->identity().may_reach_natives)
    return "no port of the cluster holds the GID, and native endpoints need hardware version 18";
  if (remote_.has_left(gid, clock_.now())) return "the port that held the GID has just unbound it";
  return {};
}

Switch::Found Switch::find_native(const verbs::Gid& gid, const Port* from) const {
  if (!native_) return {nullptr, {}, DropReason::kUnknownGid};
  if (from != nullptr && !from->attached()) return {nullptr, {}, DropReason::kPortDetached};
  if (!why_not_native(gid, from).empty()) return {nullptr, {}, DropReason::kNativeRefused};
  transport::Transport* roce = transports_.find(PathKind::kRoce);
  if (roce == nullptr || !roce->leaves(segment_)) return {nullptr, {}, DropReason::kNoPath};
  return {roce, {.segment = segment_}, {}};
}

PathInfo Switch::path_to(const verbs::Gid& gid, const Port* port) const {
  const auto local = holders_.find(gid);
  if (local == holders_.end() || local->second.is_lost) {
    const auto sibling = sibling_port(gid);
    if (has_it(sibling)) {
      if (sibling->reach != HostGids::Reach::kWorks)
        return {PathKind::kNone, std::string(why_no_path(sibling->reach)), {}};
      return {
          PathKind::kLocal,
          fmt::format("both ports are on this host, on shards {} and {}", shard_.value, sibling->shard.value),
          {}};
    }
    if (auto remote = remote_.path_to(gid, transports_)) return *std::move(remote);
    if (sibling)
      return {PathKind::kNone, "another host has bound the GID at the same time as a port of this one", {}};
    if (const std::string_view why = why_not_native(gid, port); !why.empty())
      return {PathKind::kNone, std::string(why), {}};
    if (find_native(gid, port).transport == nullptr)
      return {PathKind::kNone, "this host has no RoCE link to the segment's native endpoints", {}};
    return {PathKind::kRoce, "no port of the cluster holds the GID", {}};
  }
  if (const HostGids::Reach reach = local->second.port->reach(); reach != HostGids::Reach::kWorks)
    return {PathKind::kNone, std::string(why_no_path(reach)), {}};
  return {PathKind::kLocal, "both ports are on this host", {}};
}

PathKind Switch::kind_to(const verbs::Gid& gid, const Port* port) const {
  const Found found = find(gid, port);
  return found.transport == nullptr ? PathKind::kNone : found.transport->kind();
}

std::optional<transport::ShardNumber> Switch::shard_of(const verbs::Gid& gid) const {
  const auto local = holders_.find(gid);
  if (local != holders_.end() && !local->second.is_lost) return shard_;
  const auto sibling = sibling_holder(gid);
  return sibling ? std::optional(sibling->shard) : std::nullopt;
}

std::vector<Switch::Holder> Switch::directory() const {
  std::vector<Holder> all;
  all.reserve(holders_.size());
  for (const auto& [gid, binding] : holders_) {
    if (!binding.is_lost) all.push_back(Holder{gid, binding.port->name()});
  }
  std::sort(all.begin(), all.end(), [](const Holder& a, const Holder& b) { return a.gid < b.gid; });
  return all;
}

bool Switch::is_bound(const Port& port, const verbs::Gid& gid) const {
  const auto it = holders_.find(gid);
  return it != holders_.end() && it->second.port == &port;
}

bool Switch::holds(const Port& port, const verbs::Gid& gid) const {
  const auto it = holders_.find(gid);
  return it != holders_.end() && it->second.port == &port && !it->second.is_lost;
}

Switch::Found Switch::find(const verbs::Gid& gid, const Port* from) const {
  const auto nowhere = [](DropReason reason) { return Found{nullptr, {}, reason}; };
  const auto it = holders_.find(gid);
  if (it == holders_.end() || it->second.is_lost) {
    const auto sibling = sibling_port(gid);
    if (has_it(sibling)) {
      if (sibling->reach != HostGids::Reach::kWorks) return nowhere(why_dropped(sibling->reach));
      transport::Transport* const local = transports_.find(PathKind::kLocal);
      if (local == nullptr) return nowhere(DropReason::kNoPath);
      return {
          local,
          {.segment = segment_, .shard = sibling->shard, .copies = host_.only_copy(shard_, sibling->shard)},
          {}};
    }
    const auto remote = remote_.find(gid);
    // Lost on another shard: the news of the other host are not here yet.
    if (!remote) return sibling ? nowhere(DropReason::kUnknownGid) : find_native(gid, from);
    transport::Transport* transport = transports_.take_way_to(remote->host, remote->kind);
    if (transport == nullptr) return nowhere(DropReason::kNoPath);
    return {transport, {.host = remote->host, .segment = segment_}, {}};
  }
  const Port& holder = *it->second.port;
  if (const HostGids::Reach reach = holder.reach(); reach != HostGids::Reach::kWorks)
    return nowhere(why_dropped(reach));
  transport::Transport* local = transports_.find(PathKind::kLocal);
  if (local == nullptr) return nowhere(DropReason::kNoPath);
  return {local, {.engine = holder.engine_}, {}};
}

std::optional<HostGids::Holder> Switch::sibling_port(const verbs::Gid& gid) const {
  if (!host_.has_siblings()) return std::nullopt;
  const auto holder = host_.find(segment_, gid);
  return holder && holder->shard != shard_ ? holder : std::nullopt;
}

std::optional<HostGids::Holder> Switch::sibling_holder(const verbs::Gid& gid) const {
  const auto holder = sibling_port(gid);
  return has_it(holder) ? holder : std::nullopt;
}

DropReason Switch::why_dropped(HostGids::Reach reach) {
  return reach == HostGids::Reach::kLinkDown ? DropReason::kLinkDown : DropReason::kPortDetached;
}

void Switch::tell_reach(const Port& port) {
  for (const auto& [gid, binding] : holders_) {
    if (binding.port == &port && !binding.is_lost) host_.set_reach(segment_, gid, port.number_, port.reach());
  }
  changed();
}

bool Switch::bind(Port& port, const verbs::Gid& gid, Claim claim) {
  if (is_bound(port, gid)) {
    ++holders_.at(gid).engines;
    return true;
  }
  if (claim == Claim::kFollows) return bind_after_predecessor(port, gid);
  if (const std::string why = reservations_.why_not(port.name(), port.identity(), gid); !why.empty()) {
    ++foreign_refused_;
    refuse(port, gid, why);
    return false;
  }
  if (const std::string* host = remote_.holder_name(gid); host != nullptr && claim == Claim::kNew) {
    ++duplicates_refused_;
    refuse(port, gid, fmt::format("which host {} holds: {}", *host, kWayOut));
    return false;
  }
  const HostGids::Holder holder{.shard = shard_, .port = port.number_, .reach = port.reach()};
  const auto claims = port.identity().owns(gid) ? HostGids::Claim::kOwn : HostGids::Claim::kFree;
  if (const auto refusal = host_.bind(segment_, gid, holder, claims)) {
    const bool is_foreign = refusal->reason == HostGids::Refusal::Reason::kAddressOfAnother;
    if (is_foreign) ++foreign_refused_;
    if (refusal->reason == HostGids::Refusal::Reason::kHeld) ++duplicates_refused_;
    refuse(port, gid, describe(*refusal));
    return false;
  }
  try {
    holders_.try_emplace(gid, Binding{&port, false, 1});
    if (observer_ != nullptr) observer_->on_gid_bound(segment_, gid, port.name());
  } catch (const std::bad_alloc&) {  // the guest's command fails
    holders_.erase(gid);
    host_.unbind(segment_, gid, port.number_);
    changed();
    throw;
  }
  changed();
  return true;
}

bool Switch::bind_after_predecessor(Port& port, const verbs::Gid& gid) {
  const auto holder = host_.find(segment_, gid);
  if (!holder || holder->port != port.predecessor_) {
    refuse(port, gid, "which its port on the shard that it comes from does not hold");
    return false;
  }
  holders_.try_emplace(gid, Binding{&port, holder->reach == HostGids::Reach::kLost, 1});
  looks_again_ = looks_again_ || remote_.holder_name(gid) != nullptr;
  changed();
  return true;
}

void Switch::tell_moved(const Port& port) {
  if (observer_ == nullptr) return;
  for (const auto& [gid, binding] : holders_) {
    if (binding.port == &port) observer_->on_gid_moved(segment_, gid);
  }
}

void Switch::refuse(const Port& port, const verbs::Gid& gid, const std::string& why) {
  if (!duplicate_log_.allow(clock_.now())) return;
  log::warn("switch: refused: port {} wants GID {}, {}", port.name(), gid.to_string(), why);
}

void Switch::unbind(Port& port, const verbs::Gid& gid) {
  if (!is_bound(port, gid) || --holders_.at(gid).engines != 0) return;
  holders_.erase(gid);
  release(port, gid);
  changed();
}

// The observer is told first: as soon as the GID is free, a port of another shard may bind it.
void Switch::release(const Port& port, const verbs::Gid& gid) {
  if (observer_ != nullptr && !port.predecessor_) observer_->on_gid_unbound(segment_, gid);
  host_.unbind(segment_, gid, port.number_);
}

void Switch::unbind_all(Port& port) {
  std::erase_if(holders_, [&](const auto& entry) {
    if (entry.second.port != &port) return false;
    release(port, entry.first);
    return true;
  });
  changed();
}

void Switch::hand_over(const Port& port, const HostGids::Holder& to) {
  std::erase_if(holders_, [&](const auto& entry) {
    if (entry.second.port != &port) return false;
    HostGids::Holder holder = to;
    if (entry.second.is_lost) holder.reach = HostGids::Reach::kLost;
    host_.hand_over(segment_, entry.first, port.number_, holder);
    return true;
  });
  host_.hand_over_addresses(segment_, port.number_, to.port, port.identity().addresses);
  changed();
}

}  // namespace pvrdma::fabric
