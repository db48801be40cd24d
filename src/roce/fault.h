// Fault: why a frame is none of ours, or none at all. Each is dropped without an answer and counted.
// Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

namespace pvrdma::roce {

enum class Fault : std::uint8_t {
  kShortFrame,        // ends within a header
  kNotRoce,           // another ethertype, protocol or UDP port
  kNetworkVersion,    // neither IPv4 nor IPv6 inside what says so
  kIpOptions,         // an IPv4 header longer than 20 bytes
  kFragment,          // of an IPv4 datagram
  kNetworkLength,     // the network header's length is more than there is, or too small
  kUdpLength,         // differs from the network header's
  kShortPacket,       // headers, pad and ICRC need more
  kTransportVersion,  // of the BTH, not 0
  kOpcode,            // none of ours
  kPkey,              // another partition
  kDestination,       // QP 0, or multicast
  kDmaBytes,          // a RETH that asks for more than 2^31
  kIcrc,              // what arrived is not what was sent
};
inline constexpr std::size_t kFaults = 14;

// As a counter calls it. Static storage.
constexpr std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::kShortFrame:
      return "short_frame";
    case Fault::kNotRoce:
      return "not_roce";
    case Fault::kNetworkVersion:
      return "network_version";
    case Fault::kIpOptions:
      return "ip_options";
    case Fault::kFragment:
      return "fragment";
    case Fault::kNetworkLength:
      return "network_length";
    case Fault::kUdpLength:
      return "udp_length";
    case Fault::kShortPacket:
      return "short_packet";
    case Fault::kTransportVersion:
      return "transport_version";
    case Fault::kOpcode:
      return "opcode";
    case Fault::kPkey:
      return "pkey";
    case Fault::kDestination:
      return "destination";
    case Fault::kDmaBytes:
      return "dma_bytes";
    case Fault::kIcrc:
      return "icrc";
  }
  return "";
}

template <typename T>
using Parsed = tl::expected<T, Fault>;

inline tl::unexpected<Fault> drop(Fault fault) {
  return tl::unexpected<Fault>(fault);
}

}  // namespace pvrdma::roce
