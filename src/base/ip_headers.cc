#include "base/ip_headers.h"

namespace pvrdma {
namespace {

constexpr std::uint16_t kDontFragment = 0x4000;
constexpr std::size_t kIpv4ChecksumAt = 10;
constexpr std::size_t kIpv4AddressAt = 12;  // in an IPv6 address that maps it
constexpr std::size_t kIpv4AddressBytes = 4;

}  // namespace

void put_ipv4(const IpHeader& header, NetworkWriter& writer) {
  const auto room = writer.rest();
  writer.put(kIpv4Head);
  writer.put(header.traffic_class);
  writer.put(static_cast<std::uint16_t>(kIpv4HeaderBytes + header.payload_bytes));
  writer.zeros(2);
  writer.put(kDontFragment);
  writer.put(header.hop_limit);
  writer.put(static_cast<std::uint8_t>(header.protocol));
  writer.zeros(2);
  writer.put_bytes(header.source.data() + kIpv4AddressAt, kIpv4AddressBytes);
  writer.put_bytes(header.destination.data() + kIpv4AddressAt, kIpv4AddressBytes);
  const auto written = room.first<kIpv4HeaderBytes>();
  NetworkWriter(written.subspan<kIpv4ChecksumAt>()).put(ipv4_checksum(written));
}

void put_ipv6(const IpHeader& header, NetworkWriter& writer) {
  writer.put(6U << 28 | std::uint32_t{header.traffic_class} << 20 | (header.flow_label & kFlowLabelMask));
  writer.put(static_cast<std::uint16_t>(header.payload_bytes));
  writer.put(static_cast<std::uint8_t>(header.protocol));
  writer.put(header.hop_limit);
  writer.put_bytes(header.source.data(), header.source.size());
  writer.put_bytes(header.destination.data(), header.destination.size());
}

std::uint16_t ipv4_checksum(std::span<const std::byte, kIpv4HeaderBytes> header) {
  NetworkReader reader(header);
  std::uint32_t sum = 0;
  while (!reader.rest().empty()) sum += reader.take<std::uint16_t>();
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace pvrdma
