// NetworkMtu: the longest packet of an Ethernet, in bytes. Thread: values.
#pragma once

#include <cstdint>

namespace pvrdma {

using NetworkMtu = std::uint16_t;

inline constexpr NetworkMtu kNetworkMtuDefault = 1500;
inline constexpr NetworkMtu kNetworkMtuMin = 1280;  // IPv6's least
inline constexpr NetworkMtu kNetworkMtuMax = 9000;

// What a RoCE packet has around its payload at most, as Linux's RDMA core counts it when a connection manager
// takes the path MTU from a NIC.
inline constexpr std::uint32_t kRoceHeaderBytesMax = 96;

}  // namespace pvrdma
