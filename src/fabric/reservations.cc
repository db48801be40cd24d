#include "fabric/reservations.h"

#include <algorithm>
#include <fmt/core.h>

namespace pvrdma::fabric {

void Reservations::add(const std::string& port, const PortIdentity& identity) {
  for (const verbs::Gid& gid : identity.addresses) here_.try_emplace(gid, port);
}

void Reservations::remove(const std::string& port, const PortIdentity& identity) {
  for (const verbs::Gid& gid : identity.addresses) {
    const auto it = here_.find(gid);
    if (it != here_.end() && it->second == port) here_.erase(it);
  }
}

void Reservations::replace(const View& view) {
  Owners reserved;
  for (const ReservedGid& each : view.reserved) {
    if (each.segment == segment_) reserved.try_emplace(each.gid, each.port);
  }
  anywhere_ = std::move(reserved);
}

std::string Reservations::why_not(const std::string& port, const PortIdentity& identity,
                                  const verbs::Gid& gid) const {
  if (const auto mac = mac_in(gid)) {
    if (*mac == identity.mac) return {};
    return fmt::format("which is the adapter's with MAC {}: give the guest's interface the MAC {}",
                       mac->to_string(), identity.mac.to_string());
  }
  const auto& own = identity.addresses;
  if (std::find(own.begin(), own.end(), gid) != own.end()) return {};
  if (!own.empty()) return "which is not among its addresses: add it with pvrdmactl vm set --addresses";
  for (const Owners* owners : {&here_, &anywhere_}) {
    const auto it = owners->find(gid);
    if (it != owners->end() && it->second != port)
      return fmt::format("which is among the addresses of port {}: give the VMs different addresses",
                         it->second);
  }
  return {};
}

}  // namespace pvrdma::fabric
