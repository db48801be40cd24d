// NetworkMtu: the longest packet of an Ethernet, in bytes, and the RDMA MTU that a port on it has.
//
// Thread: values.
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

// The largest RDMA MTU, in bytes, whose packets the network carries.
constexpr std::uint32_t port_mtu_bytes(NetworkMtu mtu) {
  std::uint32_t bytes = 4096;
  while (bytes > 256 && bytes + kRoceHeaderBytesMax > mtu) bytes /= 2;
  return bytes;
}

}  // namespace pvrdma
