// The GIDs of a stand-in's port, and the MAC addresses in GIDs. Thread: pure functions.
#pragma once

#include <optional>

#include "abi/endian.h"
#include "base/ip_address.h"

namespace pvrdma::standin {

// fe80::/64 and the interface identifier that IPv6 makes of a MAC.
abi::Gid link_local_gid(const abi::Mac& mac);

// The address itself; an IPv4 address as ::ffff:a.b.c.d.
abi::Gid gid_of(const IpAddress& address);

// The MAC from which a link-local GID was made. Nothing: it was not made of one.
std::optional<abi::Mac> mac_of_link_local(const abi::Gid& gid);

}  // namespace pvrdma::standin
