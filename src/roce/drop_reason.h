// DropReason: why a frame is dropped: it is damaged, or not for a RoCE receiver of this host. A dropped frame
// is counted and not answered. Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

namespace pvrdma::roce {

enum class DropReason : std::uint8_t {
  kShortFrame,        // ends within a header
  kNotRoce,           // another ethertype, protocol or UDP port
  kNetworkVersion,    // the IP version is not that of the ethertype or of the GIDs
  kIpOptions,         // an IPv4 header longer than 20 bytes
  kFragment,          // a fragment of an IPv4 datagram
  kNetworkLength,     // the length in the network header is beyond the frame's end, or too small
  kUdpLength,         // UDP's length differs from the network header's
  kShortPacket,       // too short for headers, pad and ICRC
  kTransportVersion,  // the BTH's version is not 0
  kOpcode,            // an opcode of a transport service that is not supported (UC, RD, XRC)
  kPkey,              // another partition
  kDestination,       // QP 0, or multicast
  kIcrc,              // the packet was changed on its way
};
inline constexpr std::size_t kDropReasons = 13;

// The name that counters use. Static storage.
constexpr std::string_view name_of(DropReason reason) {
  switch (reason) {
    case DropReason::kShortFrame:
      return "short_frame";
    case DropReason::kNotRoce:
      return "not_roce";
    case DropReason::kNetworkVersion:
      return "network_version";
    case DropReason::kIpOptions:
      return "ip_options";
    case DropReason::kFragment:
      return "fragment";
    case DropReason::kNetworkLength:
      return "network_length";
    case DropReason::kUdpLength:
      return "udp_length";
    case DropReason::kShortPacket:
      return "short_packet";
    case DropReason::kTransportVersion:
      return "transport_version";
    case DropReason::kOpcode:
      return "opcode";
    case DropReason::kPkey:
      return "pkey";
    case DropReason::kDestination:
      return "destination";
    case DropReason::kIcrc:
      return "icrc";
  }
  return "";
}

template <typename T>
using Parsed = tl::expected<T, DropReason>;

inline tl::unexpected<DropReason> drop(DropReason reason) {
  return tl::unexpected<DropReason>(reason);
}

}  // namespace pvrdma::roce
