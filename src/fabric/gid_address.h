// Converts between GIDs and IP addresses: RoCE derives an interface's GIDs from its addresses. Thread:
// values.
#pragma once

#include <vector>

#include "base/ip_address.h"
#include "verbs/ids.h"

namespace pvrdma::fabric {

verbs::Gid to_gid(const IpAddress& address);
std::vector<verbs::Gid> to_gids(const std::vector<IpAddress>& addresses);
IpAddress to_address(const verbs::Gid& gid);

}  // namespace pvrdma::fabric
