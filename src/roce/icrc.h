// The invariant CRC: what proves that a RoCE packet arrived as it was sent (IBTA vol. 1, 7.8, and annex A17).
// Ethernet's CRC-32 over eight bytes of ones, the network header, UDP and BTH with all that routers may
// change replaced by ones, and the rest as it is. Pure. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pvrdma::roce {

enum class Encapsulation : std::uint8_t { kV2Ipv4, kV2Ipv6, kV1 };

// Bytes in front of the BTH: the network header, and UDP's in version 2.
constexpr std::uint32_t network_bytes(Encapsulation encapsulation) {
  switch (encapsulation) {
    case Encapsulation::kV2Ipv4:
      return 28;
    case Encapsulation::kV2Ipv6:
      return 48;
    case Encapsulation::kV1:
      return 40;
  }
  return 0;
}

// `packet`: from the network header to the pad; at least network header and BTH. The value stands on the wire
// behind it, its least significant byte first.
std::uint32_t icrc(Encapsulation encapsulation, std::span<const std::byte> packet);

}  // namespace pvrdma::roce
