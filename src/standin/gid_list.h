// The GIDs of a stand-in's port, and the MAC addresses that belong to GIDs. Thread: pure functions.
#pragma once

#include <optional>

#include "abi/endian.h"
#include "base/ip_address.h"

namespace pvrdma::standin {

// fe80::/64 and the interface identifier that IPv6 makes of a MAC.
abi::Gid link_local_gid(const abi::Mac& mac);

// The address itself; an IPv4 address as ::ffff:a.b.c.d.
abi::Gid gid_of(const IpAddress& address);

// The MAC that address handles use for a GID: the MAC from which a link-local GID was made; otherwise a
// locally administered one made of the last four bytes. Adapters of one switch do not look at it.
abi::Mac mac_of(const abi::Gid& gid);

}  // namespace pvrdma::standin
