// Ethernet's numbers as the configuration has them: VLANs, and the longest packet. Thread: values.
#pragma once

#include <cstdint>

namespace pvrdma {

// 1 to this is what an 802.1Q tag can have; 0: no tag.
inline constexpr std::uint16_t kVlanMax = 4094;

// The longest packet of an Ethernet, in bytes.
using NetworkMtu = std::uint16_t;

inline constexpr NetworkMtu kNetworkMtuDefault = 1500;
inline constexpr NetworkMtu kNetworkMtuMin = 1280;  // IPv6's least
inline constexpr NetworkMtu kNetworkMtuMax = 9000;

// What a RoCE packet has around its payload at most, as Linux's RDMA core counts it when a connection manager
// takes the path MTU from a NIC.
inline constexpr std::uint32_t kRoceHeaderBytesMax = 96;

}  // namespace pvrdma
