// Reservations: whose a GID is before anybody has bound it, so that nobody takes another's by being first.
//
// A GID whose interface identifier is made of a MAC (EUI-64, whatever its prefix) is the adapter's with that
// MAC. A port with a list of addresses holds these and its MAC's GIDs only, and nobody else holds them. All
// other GIDs belong to whoever binds them first.
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

// Of one port.
struct PortIdentity {
  Mac mac;
  std::vector<verbs::Gid> addresses;  // empty: any that are free
  bool may_reach_natives = false;     // where its segment has a NativeRule
};

class Reservations {
 public:
  explicit Reservations(transport::SegmentId segment) : segment_(segment) {}

  // A port of this host comes and goes.
  void add(const std::string& port, const PortIdentity& identity);
  void remove(const std::string& port, const PortIdentity& identity);
  // Takes over what ports anywhere have reserved.
  void replace(const View& view);

  // May the port bind `gid`? Empty: yes. Otherwise whose it is and the way out, two clauses.
  std::string why_not(const std::string& port, const PortIdentity& identity, const verbs::Gid& gid) const;

 private:
  using Owners = std::unordered_map<verbs::Gid, std::string, verbs::GidHash>;  // the port's name

  const transport::SegmentId segment_;
  Owners here_;
  Owners anywhere_;
};

}  // namespace pvrdma::fabric
