#include "verbs/grh.h"

#include "base/ip_headers.h"

namespace pvrdma::verbs {
namespace {

constexpr std::uint32_t kBthBytes = 12;
constexpr std::uint32_t kDethBytes = 8;
constexpr std::uint32_t kImmediateBytes = 4;
constexpr std::uint32_t kIcrcBytes = 4;

std::uint32_t transport_bytes(const Datagram& datagram) {
  const std::uint32_t immediate = datagram.extra == Extra::kImmediate ? kImmediateBytes : 0;
  return kBthBytes + kDethBytes + immediate + datagram.bytes + kIcrcBytes;
}

IpHeader ip_header(const Datagram& datagram) {
  const bool v1 = datagram.roce == RoceVersion::kV1;
  return {.traffic_class = datagram.traffic_class,
          .flow_label = datagram.flow_label,
          .payload_bytes = (v1 ? 0 : kUdpHeaderBytes) + transport_bytes(datagram),
          .protocol = v1 ? IpProtocol::kIba : IpProtocol::kUdp,
          .hop_limit = datagram.hop_limit,
          .source = datagram.from.gid.bytes,
          .destination = datagram.to.gid.bytes};
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
  Grh grh;
  NetworkWriter writer(grh);
  if (network_type(datagram) == abi::NetworkHdrType::kIpv4) {
    writer.zeros(grh.size() - kIpv4HeaderBytes);
    put_ipv4(ip_header(datagram), writer);
  } else {
    put_ipv6(ip_header(datagram), writer);
  }
  return grh;
}

}  // namespace pvrdma::verbs
