// The 40 bytes in front of each UD and GSI receive. Reference 6.3. Pure functions.
#pragma once

#include <array>
#include <cstddef>

#include "abi/cqe.h"
#include "abi/wqe.h"
#include "verbs/message.h"

namespace pvrdma::verbs {

using Grh = std::array<std::byte, abi::kGrhBytes>;

// RoCE v1 and v2 over IPv6: an IPv6-like header. RoCE v2 over IPv4: 20 ignored bytes, then the IPv4 header with its
// checksum. Lengths count what would follow on the wire.
Grh make_grh(const Datagram& datagram);

// abi::NetworkHdrType of that header.
abi::NetworkHdrType network_type(const Datagram& datagram);

}  // namespace pvrdma::verbs
