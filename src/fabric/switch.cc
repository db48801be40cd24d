#include "fabric/switch.h"

#include <algorithm>

#include "base/check.h"
#include "fabric/port.h"

namespace pvrdma::fabric {
namespace {

constexpr std::uint32_t kDuplicateLogBurst = 10;
constexpr Duration kDuplicateLogInterval = std::chrono::seconds(10);

}  // namespace

Switch::Switch(transport::Transport& local, const Clock& clock)
    : local_(local), clock_(clock), duplicate_log_(kDuplicateLogBurst, kDuplicateLogInterval) {}

Switch::~Switch() {
  PVRDMA_CHECK(port_count_ == 0, "a switch outlives its ports");
}

Path Switch::path_to(const verbs::Gid& gid) const {
  const Found found = find(gid);
  if (found.channel != nullptr) return Path{PathKind::kLocal, "both ports are on this host"};
  switch (found.dropped) {
    case DropReason::kUnknownGid:
      return Path{PathKind::kNone, "no port holds the GID"};
    case DropReason::kPortDetached:
      return Path{PathKind::kNone, "no adapter is behind the port that holds the GID"};
    case DropReason::kLinkDown:
      return Path{PathKind::kNone, "the link of the port that holds the GID is down"};
    case DropReason::kForeignSource:
      break;  // of a message, never of a destination
  }
  return Path{};
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
  const auto it = holders_.find(gid);
  if (it == holders_.end()) return Found{nullptr, DropReason::kUnknownGid};
  const Port& holder = *it->second;
  if (!holder.link_up_) return Found{nullptr, DropReason::kLinkDown};
  return Found{holder.inbound_.get(), DropReason::kPortDetached};
}

bool Switch::bind(Port& port, const verbs::Gid& gid) {
  const auto [it, inserted] = holders_.try_emplace(gid, &port);
  if (inserted) {
    changed();
    return true;
  }
  if (it->second == &port) return true;
  ++duplicates_refused_;
  if (duplicate_log_.allow(clock_.now())) {
    log::warn(
        "switch: port {} wants GID {}, which port {} holds: refused; give the VMs different MACs and "
        "addresses",
        port.name(), gid.to_string(), it->second->name());
  }
  return false;
}

void Switch::unbind(Port& port, const verbs::Gid& gid) {
  const auto it = holders_.find(gid);
  if (it == holders_.end() || it->second != &port) return;
  holders_.erase(it);
  changed();
}

void Switch::unbind_all(Port& port) {
  std::erase_if(holders_, [&port](const auto& entry) { return entry.second == &port; });
  changed();
}

}  // namespace pvrdma::fabric
