#include "roce/frame.h"

#include <cstring>

#include "base/check.h"
#include "base/ip_headers.h"
#include "base/network_order.h"

namespace pvrdma::roce {
namespace {

constexpr std::uint16_t kVlanTag = 0x8100;
constexpr std::uint16_t kIpv4Type = 0x0800;
constexpr std::uint16_t kIpv6Type = 0x86dd;
constexpr std::uint16_t kV1Type = 0x8915;
constexpr std::uint16_t kVlanMask = 0x0fff;
constexpr std::size_t kEthernetBytes = 14;
constexpr std::size_t kTagBytes = 4;
constexpr std::uint16_t kFragmentMask = 0x3fff;  // more fragments, and the offset

verbs::Gid ipv4_gid(NetworkReader& reader) {
  verbs::Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  reader.take_bytes(gid.bytes.data() + 12, 4);
  return gid;
}

// The places of the parts of a frame.
struct Places {
  Encapsulation encapsulation{};
  std::span<const std::byte> network;  // from the network header to the pad
  const std::byte* icrc = nullptr;     // behind `network`
};

// Cuts `rest`, which begins with the network header, to the length that the header names.
Parsed<std::span<const std::byte>> cut(std::span<const std::byte> rest, std::size_t length) {
  if (length > rest.size()) return drop(DropReason::kNetworkLength);
  return rest.first(length);
}

Parsed<std::span<const std::byte>> open_ipv4(std::span<const std::byte> rest, Envelope& envelope) {
  if (rest.size() < kIpv4HeaderBytes) return drop(DropReason::kShortFrame);
  NetworkReader reader(rest);
  const auto first = reader.take<std::uint8_t>();
  if (first >> 4 != 4) return drop(DropReason::kNetworkVersion);
  if (first != kIpv4Head) return drop(DropReason::kIpOptions);
  envelope.traffic_class = reader.take<std::uint8_t>();
  const auto length = reader.take<std::uint16_t>();
  reader.skip(2);
  if ((reader.take<std::uint16_t>() & kFragmentMask) != 0) return drop(DropReason::kFragment);
  envelope.hop_limit = reader.take<std::uint8_t>();
  if (IpProtocol{reader.take<std::uint8_t>()} != IpProtocol::kUdp) return drop(DropReason::kNotRoce);
  reader.skip(2);
  envelope.source = ipv4_gid(reader);
  envelope.destination = ipv4_gid(reader);
  return cut(rest, length);
}

Parsed<std::span<const std::byte>> open_ipv6(std::span<const std::byte> rest, IpProtocol next_header,
                                             Envelope& envelope) {
  if (rest.size() < kIpv6HeaderBytes) return drop(DropReason::kShortFrame);
  NetworkReader reader(rest);
  const auto first = reader.take<std::uint32_t>();
  if (first >> 28 != 6) return drop(DropReason::kNetworkVersion);
  envelope.traffic_class = static_cast<std::uint8_t>(first >> 20);
  envelope.flow_label = first & kFlowLabelMask;
  const auto length = reader.take<std::uint16_t>();
  if (IpProtocol{reader.take<std::uint8_t>()} != next_header) return drop(DropReason::kNotRoce);
  envelope.hop_limit = reader.take<std::uint8_t>();
  reader.take_bytes(envelope.source.bytes.data(), 16);
  reader.take_bytes(envelope.destination.bytes.data(), 16);
  return cut(rest, kIpv6HeaderBytes + length);
}

// Checks the UDP header, which ends `network` bytes from the start, and returns its source port.
Parsed<std::uint16_t> source_port(std::span<const std::byte> datagram, std::uint32_t network) {
  if (datagram.size() < network) return drop(DropReason::kNetworkLength);
  NetworkReader reader(datagram.subspan(network - kUdpHeaderBytes));
  const auto source = reader.take<std::uint16_t>();
  if (reader.take<std::uint16_t>() != kUdpPort) return drop(DropReason::kNotRoce);
  if (reader.take<std::uint16_t>() != datagram.size() - (network - kUdpHeaderBytes))
    return drop(DropReason::kUdpLength);
  return source;
}

// Finds everything around the packet. Does not look at the packet itself.
Parsed<Places> open(std::span<const std::byte> frame, Envelope& envelope) {
  if (frame.size() < kEthernetBytes + kTagBytes) return drop(DropReason::kShortFrame);
  NetworkReader reader(frame);
  reader.take_bytes(envelope.destination_mac.raw.data(), 6);
  reader.take_bytes(envelope.source_mac.raw.data(), 6);
  auto type = reader.take<std::uint16_t>();
  if (type == kVlanTag) {
    envelope.vlan = static_cast<std::uint16_t>(reader.take<std::uint16_t>() & kVlanMask);
    type = reader.take<std::uint16_t>();
  }
  const auto rest = reader.rest();

  Places places;
  Parsed<std::span<const std::byte>> datagram = drop(DropReason::kNotRoce);
  if (type == kIpv4Type) {
    places.encapsulation = Encapsulation::kV2Ipv4;
    datagram = open_ipv4(rest, envelope);
  } else if (type == kIpv6Type) {
    places.encapsulation = Encapsulation::kV2Ipv6;
    datagram = open_ipv6(rest, IpProtocol::kUdp, envelope);
  } else if (type == kV1Type) {
    places.encapsulation = Encapsulation::kV1;
    envelope.version = RoceVersion::kV1;
    datagram = open_ipv6(rest, IpProtocol::kIba, envelope);
  }
  if (!datagram) return drop(datagram.error());

  const std::uint32_t network = network_bytes(places.encapsulation);
  if (places.encapsulation != Encapsulation::kV1) {
    const auto port = source_port(*datagram, network);
    if (!port) return drop(port.error());
    envelope.source_port = *port;
    // GIDs that are IPv4 addresses must travel in IPv4.
    if (encapsulation_of(envelope) != places.encapsulation) return drop(DropReason::kNetworkVersion);
  }
  if (datagram->size() < network + kBthBytes + kIcrcBytes) return drop(DropReason::kShortPacket);
  places.network = datagram->first(datagram->size() - kIcrcBytes);
  places.icrc = places.network.data() + places.network.size();
  return places;
}

void put_icrc(std::uint32_t value, std::byte* at) {
  for (std::size_t i = 0; i < kIcrcBytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

bool holds(const std::byte* at, std::uint32_t value) {
  std::byte expected[kIcrcBytes];
  put_icrc(value, expected);
  return std::memcmp(at, expected, kIcrcBytes) == 0;
}

IpHeader ip_header(const Envelope& envelope, std::uint32_t payload_bytes) {
  return {.traffic_class = envelope.traffic_class,
          .flow_label = envelope.flow_label,
          .payload_bytes = payload_bytes,
          .protocol = envelope.version == RoceVersion::kV1 ? IpProtocol::kIba : IpProtocol::kUdp,
          .hop_limit = envelope.hop_limit,
          .source = envelope.source.bytes,
          .destination = envelope.destination.bytes};
}

std::size_t ethernet_bytes(const Envelope& envelope) {
  return kEthernetBytes + (envelope.vlan ? kTagBytes : 0);
}

}  // namespace

std::uint16_t source_port(std::uint32_t flow_label, verbs::Qpn one, verbs::Qpn other) {
  const std::uint64_t product = std::uint64_t{one.value} * other.value;
  const std::uint32_t label =
      flow_label != 0 ? flow_label & 0xf'ffff
                      : static_cast<std::uint32_t>((product ^ product >> 20 ^ product >> 40) & 0xf'ffff);
  return static_cast<std::uint16_t>(kSourcePortMin | ((label ^ label >> 14) & 0x3fff));
}

Encapsulation encapsulation_of(const Envelope& envelope) {
  if (envelope.version == RoceVersion::kV1) return Encapsulation::kV1;
  const bool ipv4 = envelope.source.is_ipv4_mapped() && envelope.destination.is_ipv4_mapped();
  return ipv4 ? Encapsulation::kV2Ipv4 : Encapsulation::kV2Ipv6;
}

std::size_t frame_bytes(const Frame& frame, std::uint32_t payload_bytes) {
  return ethernet_bytes(frame.envelope) + network_bytes(encapsulation_of(frame.envelope)) +
         packet_bytes(frame.packet.opcode, payload_bytes) + kIcrcBytes;
}

std::size_t build_head(const Frame& frame, std::uint32_t payload_bytes, std::byte* out) {
  PVRDMA_CHECK(payload_bytes <= kMtuBytesMax, "a packet's payload is at most the largest MTU");
  const Envelope& envelope = frame.envelope;
  const Encapsulation encapsulation = encapsulation_of(envelope);
  const std::uint32_t packet = packet_bytes(frame.packet.opcode, payload_bytes) + kIcrcBytes;
  NetworkWriter writer({out, kHeadBytesMax});
  writer.put_bytes(envelope.destination_mac.raw.data(), 6);
  writer.put_bytes(envelope.source_mac.raw.data(), 6);
  if (envelope.vlan) {
    writer.put(kVlanTag);
    writer.put(static_cast<std::uint16_t>(*envelope.vlan & kVlanMask));
  }
  switch (encapsulation) {
    case Encapsulation::kV2Ipv4:
      writer.put(kIpv4Type);
      put_ipv4(ip_header(envelope, kUdpHeaderBytes + packet), writer);
      break;
    case Encapsulation::kV2Ipv6:
      writer.put(kIpv6Type);
      put_ipv6(ip_header(envelope, kUdpHeaderBytes + packet), writer);
      break;
    case Encapsulation::kV1:
      writer.put(kV1Type);
      put_ipv6(ip_header(envelope, packet), writer);
      break;
  }
  if (encapsulation != Encapsulation::kV1) {
    writer.put(envelope.source_port);
    writer.put(kUdpPort);
    writer.put(static_cast<std::uint16_t>(kUdpHeaderBytes + packet));
    writer.zeros(2);
  }
  build_headers(frame.packet, payload_bytes, writer.rest().data());
  return kHeadBytesMax - writer.rest().size() + header_bytes(frame.packet.opcode);
}

std::size_t finish(const Frame& frame, std::size_t head_bytes, std::uint32_t payload_bytes, std::byte* out) {
  const std::span<std::byte> whole(out, frame_bytes(frame, payload_bytes));
  NetworkWriter writer(whole.subspan(head_bytes + payload_bytes));
  writer.zeros(pad_bytes(payload_bytes));
  const std::size_t ethernet = ethernet_bytes(frame.envelope);
  const auto covered = whole.subspan(ethernet, whole.size() - kIcrcBytes - ethernet);
  put_icrc(icrc(encapsulation_of(frame.envelope), covered), writer.rest().data());
  return whole.size();
}

std::size_t build(const Frame& frame, std::byte* out) {
  const auto payload = static_cast<std::uint32_t>(frame.packet.payload.size());
  const std::size_t head = build_head(frame, payload, out);
  if (payload != 0) std::memcpy(out + head, frame.packet.payload.data(), payload);
  return finish(frame, head, payload, out);
}

Parsed<Frame> parse(std::span<const std::byte> frame) {
  Frame parsed;
  const auto places = open(frame, parsed.envelope);
  if (!places) return drop(places.error());
  auto packet = parse_packet(places->network.subspan(network_bytes(places->encapsulation)));
  if (!packet) return drop(packet.error());
  if (!holds(places->icrc, icrc(places->encapsulation, places->network))) return drop(DropReason::kIcrc);
  parsed.packet = *packet;
  return parsed;
}

Parsed<std::uint32_t> seal(std::span<std::byte> frame) {
  Envelope envelope;
  const auto places = open(frame, envelope);
  if (!places) return drop(places.error());
  const std::uint32_t value = icrc(places->encapsulation, places->network);
  put_icrc(value, frame.data() + (places->icrc - frame.data()));
  return value;
}

}  // namespace pvrdma::roce
