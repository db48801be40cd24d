// Frame: a packet in an Ethernet frame: RoCE v2 over IPv4 or IPv6, or v1 with a GRH; each with or without an
// 802.1Q tag.
//
// Lengths are taken from the network header, never from the frame, which Ethernet pads to 60 bytes. Frames
// are sent with the IP id 0, "don't fragment" and no UDP checksum, because the ICRC protects them. Any id and
// UDP checksum are accepted. Pure. Thread: values.
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
inline constexpr std::uint16_t kSourcePortMin = 0xc000;  // the lowest UDP source port
inline constexpr std::uint8_t kHopLimit = 64;

// The UDP source port that the kernel's drivers choose for a connection. It is made from the flow label or,
// if that is 0, from the QP numbers; then it is the same at both ends.
std::uint16_t source_port(std::uint32_t flow_label, verbs::Qpn one, verbs::Qpn other);

// Everything in a frame except the packet.
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
  std::uint16_t source_port = kSourcePortMin;  // RoCE v2 only

  friend bool operator==(const Envelope&, const Envelope&) = default;
};

// RoCE v2 uses IPv4 if the GIDs of both ends are IPv4 addresses.
Encapsulation encapsulation_of(const Envelope& envelope);

struct Frame {
  Envelope envelope;
  Packet packet;
};

// The most bytes before the payload: Ethernet with a tag, IPv6, UDP, BTH and AtomicETH.
inline constexpr std::size_t kHeadBytesMax = 18 + 48 + kBthBytes + 28;
// The most bytes around the payload of a packet as long as the path MTU allows, from the IP header on: those
// of a write only with immediate data.
inline constexpr std::size_t kOverheadBytesMax = 48 + kBthBytes + 20 + kIcrcBytes;
inline constexpr std::size_t kFrameBytesMax = 18 + kOverheadBytesMax + kMtuBytesMax;

// The length of the whole frame, from the Ethernet header to the ICRC, without Ethernet's pad.
std::size_t frame_bytes(const Frame& frame, std::uint32_t payload_bytes);

// Writes everything before the payload to `out`, which has room for kHeadBytesMax, and returns its length.
// `payload_bytes` is at most kMtuBytesMax; packet.payload is not used.
std::size_t build_head(const Frame& frame, std::uint32_t payload_bytes, std::byte* out);

// Completes the frame at `out`, which already has its head from build_head() and its payload: writes pad and
// ICRC. Returns the frame's length.
std::size_t finish(const Frame& frame, std::size_t head_bytes, std::uint32_t payload_bytes, std::byte* out);

// Writes the frame to `out`, which has room for kFrameBytesMax, and returns its length. The payload, at most
// kMtuBytesMax, is copied before the ICRC is computed, because its memory may change.
std::size_t build(const Frame& frame, std::byte* out);

// Parses a frame. The packet's payload is a view of `frame`. Error: why the frame is dropped.
Parsed<Frame> parse(std::span<const std::byte> frame);

// Writes the right ICRC into a frame that was changed, and returns it. Error: why the frame has no place for
// an ICRC.
Parsed<std::uint32_t> seal(std::span<std::byte> frame);

}  // namespace pvrdma::roce
