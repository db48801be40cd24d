// NetworkMtu: the longest packet of an Ethernet, in bytes. Thread: values.
#pragma once

#include <cstdint>

namespace pvrdma {

using NetworkMtu = std::uint16_t;

inline constexpr NetworkMtu kNetworkMtuDefault = 1500;
inline constexpr NetworkMtu kNetworkMtuMin = 1280;  // IPv6's least
inline constexpr NetworkMtu kNetworkMtuMax = 9000;

}  // namespace pvrdma
