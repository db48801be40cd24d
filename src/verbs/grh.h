// The 40 bytes at the start of each UD and GSI receive. Reference 6.3. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "abi/cqe.h"
#include "abi/wqe.h"
#include "verbs/message.h"

namespace pvrdma::verbs {

using Grh = std::array<std::byte, abi::kGrhBytes>;

// RoCE v1, and RoCE v2 over IPv6: an IPv6-like header. RoCE v2 over IPv4: 20 ignored bytes, then the IPv4
// header with its checksum. The header's length fields count what would follow it on the wire.
Grh make_grh(const Datagram& datagram);

// Which of these headers it is, in the encoding that RoCE NICs use in the completion's sl field, which is
// otherwise unused for RoCE: bit 3 for UDP, plus 1 for IPv6 or 2 for IPv4; 0 for RoCE v1. UCX 1.18 reads it
// there (openucx/ucx pull request 10209).
std::uint8_t packet_type(const Datagram& datagram);

// abi::NetworkHdrType of that header.
abi::NetworkHdrType network_type(const Datagram& datagram);

}  // namespace pvrdma::verbs
