// The IP headers around RDMA packets: IPv4 and IPv6. A GRH has the form of the latter. Thread: values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/network_order.h"

namespace pvrdma {

inline constexpr std::uint32_t kIpv4HeaderBytes = 20;  // without options
inline constexpr std::uint8_t kIpv4Head = 0x45;        // its first byte: version 4, five words
inline constexpr std::uint32_t kIpv6HeaderBytes = 40;
inline constexpr std::uint32_t kUdpHeaderBytes = 8;
inline constexpr std::uint32_t kFlowLabelMask = 0xf'ffff;

// The kind of header that follows: IPv4's "protocol", IPv6's "next header".
enum class IpProtocol : std::uint8_t {
  kUdp = 17,
  kIba = 0x1b,  // a BTH, in a GRH
};

struct IpHeader {
  std::uint8_t traffic_class = 0;  // with ECN in its low two bits
  std::uint32_t flow_label = 0;    // IPv6: the low 20 bits
  // The bytes after the header. They are fewer than 2^16; in IPv4 that bound includes the header.
  std::uint32_t payload_bytes = 0;
  IpProtocol protocol{};
  std::uint8_t hop_limit = 0;
  std::array<std::uint8_t, 16> source{};  // IPv4: IPv4-mapped, in the last four bytes
  std::array<std::uint8_t, 16> destination{};
};

// Sets "don't fragment", an id of 0 and the checksum.
void put_ipv4(const IpHeader& header, NetworkWriter& writer);
void put_ipv6(const IpHeader& header, NetworkWriter& writer);

// The checksum of a header whose checksum field is 0. For a header with a correct checksum, the result is 0.
std::uint16_t ipv4_checksum(std::span<const std::byte, kIpv4HeaderBytes> header);

}  // namespace pvrdma
