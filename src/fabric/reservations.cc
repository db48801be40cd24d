#include "fabric/reservations.h"

#include <algorithm>
#include <fmt/core.h>

namespace pvrdma::fabric {

bool PortIdentity::owns(const verbs::Gid& gid) const {
  return mac_in(gid) == mac || std::ranges::find(addresses, gid) != addresses.end();
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
  if (const auto mac = mac_in(gid); mac && *mac != identity.mac)
    return fmt::format("which is the adapter's with MAC {}: give the guest's interface the MAC {}",
                       mac->to_string(), identity.mac.to_string());
  if (identity.owns(gid)) return {};
  if (!identity.addresses.empty())
    return "which is not among its addresses: add it with pvrdmactl vm set --addresses";
  if (const auto it = anywhere_.find(gid); it != anywhere_.end() && it->second != port)
    return fmt::format("which is among the addresses of port {}: give the VMs different addresses",
                       it->second);
  return {};
}

}  // namespace pvrdma::fabric
