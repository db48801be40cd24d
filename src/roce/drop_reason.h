// DropReason: why a frame is dropped: it is damaged, or not for a RoCE receiver of ours. Such a frame has no
// answer and is counted.
// Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

namespace pvrdma::roce {

enum class DropReason : std::uint8_t {
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
inline constexpr std::size_t kDropReasons = 14;

// As a counter calls it. Static storage.
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
    case DropReason::kDmaBytes:
      return "dma_bytes";
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
