// The invariant CRC (ICRC): shows that a RoCE packet arrived as it was sent (IBTA vol. 1, 7.8, and annex
// A17). It is Ethernet's CRC-32 over eight bytes of ones, then the network header, UDP and BTH, in which ones
// replace all fields that routers may change, then the rest of the packet. Pure. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pvrdma::roce {

enum class Encapsulation : std::uint8_t { kV2Ipv4, kV2Ipv6, kV1 };

// The bytes before the BTH: the network header and, in version 2, the UDP header.
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

// `packet` reaches from the network header to the pad, and has at least network header and BTH. On the wire,
// the value follows it, least significant byte first.
std::uint32_t icrc(Encapsulation encapsulation, std::span<const std::byte> packet);

}  // namespace pvrdma::roce
