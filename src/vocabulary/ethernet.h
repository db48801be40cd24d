// Numbers of Ethernet networks in the configuration: VLANs and the MTU. Thread: values.
#pragma once

#include <cstdint>

namespace pvrdma {

// An 802.1Q tag has a VLAN from 1 to kVlanMax. 0 means no tag.
inline constexpr std::uint16_t kVlanMax = 4094;

// The longest packet of an Ethernet, in bytes.
using NetworkMtu = std::uint16_t;

inline constexpr NetworkMtu kNetworkMtuDefault = 1500;
inline constexpr NetworkMtu kNetworkMtuMin = 1280;  // the minimum of IPv6
inline constexpr NetworkMtu kNetworkMtuMax = 9000;

// The most header bytes of a RoCE packet. Linux's RDMA core subtracts as many when a connection manager
// derives the path MTU from the MTU of a NIC.
inline constexpr std::uint32_t kRoceHeaderBytesMax = 96;

}  // namespace pvrdma
