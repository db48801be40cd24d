#include "standin/neighbors.h"

#include "standin/gid_list.h"

namespace pvrdma::standin {
namespace {

abi::Mac invented_mac(const abi::Gid& gid) {
  const auto& g = gid.raw;
  return {{0x02, 0x00, g[12], g[13], g[14], g[15]}};
}

}  // namespace

Neighbors::Found Neighbors::find(const abi::Gid& gid, Instant now) {
  if (const auto mac = mac_of_link_local(gid)) return {*mac};
  const Found unknown{gateway_.value_or(invented_mac(gid))};
  const auto hop = network_->route_to(gid);
  if (!hop || (hop->is_router && gateway_)) return unknown;
  if (const auto mac = network_->mac_of(*hop)) return {*mac};
  return {unknown.mac, !hop->is_router && may_wait(*hop, now)};
}

bool Neighbors::may_wait(const NextHop& hop, Instant now) {
  std::erase_if(asked_, [&](const auto& each) { return now - each.second >= kMemory; });
  if (const auto known = asked_.find(hop); known != asked_.end()) return now - known->second < kPatience;
  if (asked_.size() == kAskedMax) return false;
  asked_[hop] = now;
  network_->ask(hop);
  return true;
}

}  // namespace pvrdma::standin
