#include "fabric/switch.h"

#include <algorithm>

#include "base/check.h"
#include "fabric/port.h"

namespace pvrdma::fabric {
namespace {

constexpr std::uint32_t kDuplicateLogBurst = 10;
constexpr Duration kDuplicateLogInterval = std::chrono::seconds(10);

}  // namespace

Switch::Switch(transport::SegmentId segment, const Transports& transports, const Clock& clock,
               Observer* observer)
    : segment_(segment),
      transports_(transports),
      observer_(observer),
      remote_(segment),
      clock_(clock),
      duplicate_log_(kDuplicateLogBurst, kDuplicateLogInterval) {}

Switch::~Switch() {
  PVRDMA_CHECK(ports_.empty(), "a switch outlives its ports");
}

void Switch::set_view(const View& view) {
  const RemoteDirectory::Change change = remote_.replace(view);
  if (!change.any) return;
  changed();
  const auto affected = [&change](const verbs::Gid& peer) {
    return std::binary_search(change.reachable.begin(), change.reachable.end(), peer);
  };
  each_engine([&](verbs::Engine& engine) {
    if (!change.reachable.empty()) engine.on_path_restored(affected);
    engine.on_path_ready();  // who waited for the path before has another one, or none to wait for
  });
}

void Switch::paths_ready() {
  each_engine([](verbs::Engine& engine) { engine.on_path_ready(); });
}

void Switch::paths_restored(transport::HostId host) {
  const auto affected = [this, host](const verbs::Gid& peer) { return remote_.is_held_by(host, peer); };
  each_engine([&](verbs::Engine& engine) { engine.on_path_restored(affected); });
}

// Engines only make QPs ready: no port comes or goes meanwhile.
void Switch::each_engine(const std::function<void(verbs::Engine&)>& visit) {
  for (Port* port : ports_) {
    if (port->engine_ != nullptr) visit(*port->engine_);
  }
}

Switch::Admission Switch::admit(transport::HostId host, const verbs::Gid& source,
                                const verbs::Gid& destination) const {
  const auto it = holders_.find(destination);
  if (it == holders_.end()) return {transport::Delivery::kUnknownGid, nullptr};
  if (!remote_.is_held_by(host, source)) return {transport::Delivery::kForeignSource, nullptr};
  return {transport::Delivery::kDelivered, it->second};
}

PathInfo Switch::path_to(const verbs::Gid& gid) const {
  const auto local = holders_.find(gid);
  if (local == holders_.end()) {
    auto remote = remote_.path_to(gid, transports_);
    return remote ? *std::move(remote) : PathInfo{PathKind::kNone, "no port holds the GID", {}};
  }
  const Port& holder = *local->second;
  if (!holder.link_up_) return {PathKind::kNone, "the link of the port that holds the GID is down", {}};
  if (!holder.attached()) return {PathKind::kNone, "no adapter is behind the port that holds the GID", {}};
  return {PathKind::kLocal, "both ports are on this host", {}};
}

std::vector<Switch::Holder> Switch::directory() const {
  std::vector<Holder> all;
  all.reserve(holders_.size());
  for (const auto& [gid, port] : holders_) all.push_back(Holder{gid, port->name()});
  std::sort(all.begin(), all.end(), [](const Holder& a, const Holder& b) { return a.gid < b.gid; });
  return all;
}

bool Switch::holds(const Port& port, const verbs::Gid& gid) const {
  const auto it = holders_.find(gid);
  return it != holders_.end() && it->second == &port;
}

Switch::Found Switch::find(const verbs::Gid& gid) const {
  const auto nowhere = [](DropReason reason) { return Found{nullptr, {}, reason}; };
  const auto it = holders_.find(gid);
  if (it == holders_.end()) {
    const auto remote = remote_.find(gid);
    if (!remote) return nowhere(DropReason::kUnknownGid);
    transport::Transport* transport = transports_.find(remote->kind);
    if (transport == nullptr) return nowhere(DropReason::kNoPath);
    return {transport, {.host = remote->host, .segment = segment_}, {}};
  }
  const Port& holder = *it->second;
  if (!holder.link_up_) return nowhere(DropReason::kLinkDown);
  if (!holder.attached()) return nowhere(DropReason::kPortDetached);
  transport::Transport* local = transports_.find(PathKind::kLocal);
  if (local == nullptr) return nowhere(DropReason::kNoPath);
  return {local, {.engine = holder.engine_}, {}};
}

bool Switch::bind(Port& port, const verbs::Gid& gid) {
  if (const std::string* host = remote_.holder_name(gid); host != nullptr && !holds(port, gid)) {
    refuse(port, gid, "host " + *host);
    return false;
  }
  const auto [it, inserted] = holders_.try_emplace(gid, &port);
  if (inserted) {
    changed();
    if (observer_ != nullptr) observer_->on_gid_bound(segment_, gid, port.name());
    return true;
  }
  if (it->second == &port) return true;
  refuse(port, gid, "port " + it->second->name());
  return false;
}

void Switch::refuse(const Port& port, const verbs::Gid& gid, const std::string& holder) {
  ++duplicates_refused_;
  if (!duplicate_log_.allow(clock_.now())) return;
  log::warn(
      "switch: port {} wants GID {}, which {} holds: refused; give the VMs different MACs and addresses",
      port.name(), gid.to_string(), holder);
}

void Switch::unbind(Port& port, const verbs::Gid& gid) {
  if (!holds(port, gid)) return;
  holders_.erase(gid);
  changed();
  if (observer_ != nullptr) observer_->on_gid_unbound(segment_, gid);
}

void Switch::unbind_all(Port& port) {
  std::erase_if(holders_, [&](const auto& entry) {
    if (entry.second != &port) return false;
    if (observer_ != nullptr) observer_->on_gid_unbound(segment_, entry.first);
    return true;
  });
  changed();
}

}  // namespace pvrdma::fabric
