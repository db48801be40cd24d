#include "verbs/grh.h"

#include <cstring>
#include <span>

namespace pvrdma::verbs {
namespace {

constexpr std::size_t kIpv4Offset = 20;
constexpr std::uint32_t kBthBytes = 12;
constexpr std::uint32_t kDethBytes = 8;
constexpr std::uint32_t kImmediateBytes = 4;
constexpr std::uint32_t kIcrcBytes = 4;
constexpr std::uint32_t kUdpBytes = 8;
constexpr std::uint32_t kIpv4Bytes = 20;
constexpr std::uint8_t kNextHeaderIba = 0x1b;
constexpr std::uint8_t kProtocolUdp = 17;

void put_be16(std::span<std::byte> at, std::uint32_t value) {
  at[0] = static_cast<std::byte>(value >> 8);
  at[1] = static_cast<std::byte>(value);
}

std::uint32_t transport_bytes(const Datagram& datagram) {
  const std::uint32_t immediate = datagram.extra == Extra::kImmediate ? kImmediateBytes : 0;
  return kBthBytes + kDethBytes + immediate + datagram.bytes + kIcrcBytes;
}

std::uint32_t ipv4_checksum(std::span<const std::byte> header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2) {
    sum += std::to_integer<std::uint32_t>(header[i]) << 8 | std::to_integer<std::uint32_t>(header[i + 1]);
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

void fill_ipv4(const Datagram& datagram, std::span<std::byte> header) {
  header[0] = std::byte{0x45};
  header[1] = static_cast<std::byte>(datagram.traffic_class);
  put_be16(header.subspan(2), kIpv4Bytes + kUdpBytes + transport_bytes(datagram));
  put_be16(header.subspan(6), 0x4000);  // don't fragment
  header[8] = static_cast<std::byte>(datagram.hop_limit);
  header[9] = static_cast<std::byte>(kProtocolUdp);
  std::memcpy(&header[12], datagram.from.gid.bytes.data() + 12, 4);
  std::memcpy(&header[16], datagram.to.gid.bytes.data() + 12, 4);
  put_be16(header.subspan(10), ipv4_checksum(header));
}

void fill_ipv6(const Datagram& datagram, std::span<std::byte> header) {
  const bool v1 = datagram.roce == RoceVersion::kV1;
  const std::uint32_t first =
      6U << 28 | static_cast<std::uint32_t>(datagram.traffic_class) << 20 | (datagram.flow_label & 0xfffff);
  put_be16(header, first >> 16);
  put_be16(header.subspan(2), first & 0xffff);
  put_be16(header.subspan(4), (v1 ? 0 : kUdpBytes) + transport_bytes(datagram));
  header[6] = static_cast<std::byte>(v1 ? kNextHeaderIba : kProtocolUdp);
  header[7] = static_cast<std::byte>(datagram.hop_limit);
  std::memcpy(&header[8], datagram.from.gid.bytes.data(), 16);
  std::memcpy(&header[24], datagram.to.gid.bytes.data(), 16);
}

}  // namespace

abi::NetworkHdrType network_type(const Datagram& datagram) {
  if (datagram.roce == RoceVersion::kV1) return abi::NetworkHdrType::kRocev1;
  return datagram.to.gid.is_ipv4_mapped() ? abi::NetworkHdrType::kIpv4 : abi::NetworkHdrType::kIpv6;
}

std::uint8_t packet_type(const Datagram& datagram) {
  constexpr std::uint8_t kUdp = 1 << 3;
  switch (network_type(datagram)) {
    case abi::NetworkHdrType::kRocev1:
      return 0;
    case abi::NetworkHdrType::kIpv6:
      return kUdp | 1;
    case abi::NetworkHdrType::kIpv4:
      return kUdp | 2;
  }
  return 0;
}

Grh make_grh(const Datagram& datagram) {
  Grh grh{};
  if (network_type(datagram) == abi::NetworkHdrType::kIpv4) {
    fill_ipv4(datagram, std::span(grh).subspan(kIpv4Offset));
  } else {
    fill_ipv6(datagram, grh);
  }
  return grh;
}

}  // namespace pvrdma::verbs
