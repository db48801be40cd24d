// Frame: a packet in Ethernet: RoCE v2 over IPv4 or IPv6, or v1 with a GRH; each with or without an 802.1Q
// tag.
//
// Lengths are taken from the network header, never from the frame, which Ethernet pads to 60 bytes. Sent: an
// id of 0 with "don't fragment" and no UDP checksum, for the ICRC protects; accepted: any. Pure.
// Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "roce/drop_reason.h"
#include "roce/icrc.h"
#include "roce/packet.h"
#include "verbs/ids.h"
#include "vocabulary/mac.h"
#include "vocabulary/roce_version.h"

namespace pvrdma::roce {

inline constexpr std::uint16_t kUdpPort = 4791;
inline constexpr std::uint16_t kSourcePortMin = 0xc000;  // of UDP: and up
inline constexpr std::uint8_t kHopLimit = 64;

// The one that the kernel's drivers give a connection: made of its flow label, or without one of the QP
// numbers, and then the same at both ends.
std::uint16_t source_port(std::uint32_t flow_label, verbs::Qpn one, verbs::Qpn other);

// All of a frame that is no packet.
struct Envelope {
  Mac source_mac;
  Mac destination_mac;
  std::optional<std::uint16_t> vlan;  // the tag's 12 bits; priority 0
  RoceVersion version = RoceVersion::kV2;
  verbs::Gid source;
  verbs::Gid destination;
  std::uint8_t traffic_class = 0;  // with ECN in its low two bits
  std::uint32_t flow_label = 0;    // IPv6 and GRH, 20 bits
  std::uint8_t hop_limit = kHopLimit;
  std::uint16_t source_port = kSourcePortMin;  // v2

  friend bool operator==(const Envelope&, const Envelope&) = default;
};

// IPv4 where both ends' GIDs are IPv4 addresses.
Encapsulation encapsulation_of(const Envelope& envelope);

struct Frame {
  Envelope envelope;
  Packet packet;
};

// Headers in front of the payload: Ethernet with a tag, IPv6, UDP, BTH and AtomicETH at most.
inline constexpr std::size_t kHeadBytesMax = 18 + 48 + kBthBytes + 28;
inline constexpr std::size_t kFrameBytesMax =
    18 + 48 + kBthBytes + 20 + kMtuBytesMax + kIcrcBytes;  // a write only with immediate data

// The whole frame, from Ethernet's header to the ICRC, without Ethernet's pad.
std::size_t frame_bytes(const Frame& frame, std::uint32_t payload_bytes);

// Writes everything in front of the payload to `out`, which has room for kHeadBytesMax, and returns how much
// that is. `payload_bytes`, at most kMtuBytesMax, may be more than packet.payload has.
std::size_t build_head(const Frame& frame, std::uint32_t payload_bytes, std::byte* out);

// Completes a frame at `out`, behind whose head of build_head() that much payload lies already: pad and ICRC.
// Returns its length.
std::size_t finish(const Frame& frame, std::size_t head_bytes, std::uint32_t payload_bytes, std::byte* out);

// Writes the frame to `out`, which has room for kFrameBytesMax, and returns its length. The payload, at most
// kMtuBytesMax, is copied before the ICRC is computed: it may be memory that changes.
std::size_t build(const Frame& frame, std::byte* out);

// The payload is a view of `frame`. Error: why it is dropped.
Parsed<Frame> parse(std::span<const std::byte> frame);

// Gives a frame that was changed the ICRC that it needs. Error: there is no place for one.
Parsed<std::uint32_t> seal(std::span<std::byte> frame);

}  // namespace pvrdma::roce
