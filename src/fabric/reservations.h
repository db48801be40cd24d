// Reservations: decides who may bind a GID before anybody has bound it. So no VM can take another VM's GID by
// binding it first.
//
// A GID whose interface identifier is derived from a MAC (EUI-64, with any prefix) belongs to the adapter
// with that MAC. A port with a list of addresses may hold these and its MAC's GIDs only, and no other port
// may hold them. All other GIDs belong to the port that binds them first.
//
// This is what one port may bind whatever its host's other ports have, and the addresses that the cluster
// knows of. The addresses of this host's ports are in HostGids.
//
// Thread: shard-owned.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/view.h"
#include "transport/transport.h"
#include "verbs/ids.h"
#include "vocabulary/mac.h"

namespace pvrdma::fabric {

// The identity of one port.
struct PortIdentity {
  Mac mac;
  std::vector<verbs::Gid> addresses;  // empty: any address that is free
  bool may_reach_natives = false;     // if its segment has a NativeRule

  // Whether the GID is derived from its MAC, or among its addresses.
  bool owns(const verbs::Gid& gid) const;
};

class Reservations {
 public:
  explicit Reservations(transport::SegmentId segment) : segment_(segment) {}

  // Takes over the reservations of all ports of the cluster.
  void replace(const View& view);

  // Why the port may not bind `gid`. Empty: it may. Otherwise the GID's owner and a way out, two clauses.
  std::string why_not(const std::string& port, const PortIdentity& identity, const verbs::Gid& gid) const;

 private:
  using Owners = std::unordered_map<verbs::Gid, std::string, verbs::GidHash>;  // the name of the port

  const transport::SegmentId segment_;
  Owners anywhere_;
};

}  // namespace pvrdma::fabric
