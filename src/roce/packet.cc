#include "roce/packet.h"

#include "base/network_order.h"

namespace pvrdma::roce {
namespace {

constexpr std::uint8_t kSolicitedBit = 0x80;
constexpr std::uint8_t kMigratedBit = 0x40;
constexpr std::uint8_t kVersionMask = 0x0f;
constexpr std::uint8_t kFecnBit = 0x80;
constexpr std::uint8_t kBecnBit = 0x40;
constexpr std::uint8_t kAckRequestBit = 0x80;
constexpr std::uint16_t kPartitionMask = 0x7fff;

constexpr std::uint8_t flag(bool set, std::uint8_t bit) {
  return set ? bit : std::uint8_t{0};
}

void take_extensions(NetworkReader& reader, Packet& packet) {
  const Opcode opcode = packet.opcode;
  if (has(opcode, kDeth)) {
    packet.qkey = reader.take<std::uint32_t>();
    reader.skip(1);
    packet.source = verbs::Qpn(reader.take24());
  }
  if (has(opcode, kReth)) {
    packet.remote_addr = reader.take<std::uint64_t>();
    packet.rkey = reader.take<std::uint32_t>();
    packet.dma_bytes = reader.take<std::uint32_t>();
  }
  if (has(opcode, kAeth)) {
    packet.syndrome = reader.take<std::uint8_t>();
    packet.msn = reader.take24();
  }
  if (has(opcode, kAtomicEth)) {
    packet.remote_addr = reader.take<std::uint64_t>();
    packet.rkey = reader.take<std::uint32_t>();
    packet.swap_or_add = reader.take<std::uint64_t>();
    packet.compare = reader.take<std::uint64_t>();
  }
  if (has(opcode, kAtomicAckEth)) packet.atomic_original = reader.take<std::uint64_t>();
  if (has(opcode, kImmediate)) reader.take_bytes(&packet.immediate, sizeof packet.immediate);
  if (has(opcode, kInvalidate)) packet.invalidate_rkey = reader.take<std::uint32_t>();
}

}  // namespace

bool payload_fits(Opcode opcode, std::uint32_t payload_bytes, std::uint32_t mtu_bytes) {
  switch (rule_of(opcode).payload) {
    case PayloadRule::kNone:
      return payload_bytes == 0;
    case PayloadRule::kMtu:
      return payload_bytes == mtu_bytes;
    case PayloadRule::kOneToMtu:
      return payload_bytes != 0 && payload_bytes <= mtu_bytes;
    case PayloadRule::kUpToMtu:
      return payload_bytes <= mtu_bytes;
    case PayloadRule::kSixteen:
      return payload_bytes == 16;
    case PayloadRule::kAny:
      return true;
  }
  return false;
}

void build_headers(const Packet& packet, std::uint32_t payload_bytes, std::byte* out) {
  const Opcode opcode = packet.opcode;
  NetworkWriter writer({out, header_bytes(opcode)});
  writer.put(static_cast<std::uint8_t>(opcode));
  writer.put(static_cast<std::uint8_t>(flag(packet.solicited, kSolicitedBit) |
                                       flag(packet.migrated, kMigratedBit) | pad_bytes(payload_bytes) << 4));
  writer.put(packet.pkey);
  writer.put(static_cast<std::uint8_t>(flag(packet.fecn, kFecnBit) | flag(packet.becn, kBecnBit)));
  writer.put24(packet.destination.value);
  writer.put(flag(packet.ack_request, kAckRequestBit));
  writer.put24(packet.psn.value);

  if (has(opcode, kDeth)) {
    writer.put(packet.qkey);
    writer.zeros(1);
    writer.put24(packet.source.value);
  }
  if (has(opcode, kReth)) {
    writer.put(packet.remote_addr);
    writer.put(packet.rkey);
    writer.put(packet.dma_bytes);
  }
  if (has(opcode, kAeth)) {
    writer.put(packet.syndrome);
    writer.put24(packet.msn);
  }
  if (has(opcode, kAtomicEth)) {
    writer.put(packet.remote_addr);
    writer.put(packet.rkey);
    writer.put(packet.swap_or_add);
    writer.put(packet.compare);
  }
  if (has(opcode, kAtomicAckEth)) writer.put(packet.atomic_original);
  if (has(opcode, kImmediate)) writer.put_bytes(&packet.immediate, sizeof packet.immediate);
  if (has(opcode, kInvalidate)) writer.put(packet.invalidate_rkey);
}

Parsed<Packet> parse_packet(std::span<const std::byte> bytes) {
  if (bytes.size() < kBthBytes) return drop(DropReason::kShortPacket);
  NetworkReader reader(bytes);
  const OpcodeRule* rule = find_rule(reader.take<std::uint8_t>());
  const auto flags = reader.take<std::uint8_t>();
  if ((flags & kVersionMask) != 0) return drop(DropReason::kTransportVersion);
  if (rule == nullptr) return drop(DropReason::kOpcode);

  Packet packet;
  packet.opcode = rule->opcode;
  packet.solicited = (flags & kSolicitedBit) != 0;
  packet.migrated = (flags & kMigratedBit) != 0;
  packet.pkey = reader.take<std::uint16_t>();
  const auto congestion = reader.take<std::uint8_t>();
  packet.fecn = (congestion & kFecnBit) != 0;
  packet.becn = (congestion & kBecnBit) != 0;
  packet.destination = verbs::Qpn(reader.take24());
  packet.ack_request = (reader.take<std::uint8_t>() & kAckRequestBit) != 0;
  packet.psn = verbs::Psn(reader.take24());

  const std::uint32_t headers = header_bytes(packet.opcode);
  const std::uint32_t pad = flags >> 4 & 3;
  if (bytes.size() < headers + pad) return drop(DropReason::kShortPacket);
  // We are a full member of the default partition, so a limited member may speak to us (IBTA vol. 1, 10.9.3).
  if ((packet.pkey & kPartitionMask) != kPartitionMask) return drop(DropReason::kPkey);
  if (packet.destination.value == 0 || packet.destination.value == kMulticastQpn)
    return drop(DropReason::kDestination);
  take_extensions(reader, packet);
  packet.payload = bytes.subspan(headers, bytes.size() - headers - pad);
  return packet;
}

}  // namespace pvrdma::roce
