// Packet: what a RoCE frame of any kind carries: the base transport header (BTH), extension headers and
// payload (IBTA vol. 1, chapter 9). The payload is a view; all other fields are values in host order.
//
// Parsed packets are untrusted. parse_packet() checks lengths, version, opcode, P_Key and destination. What a
// connection answers instead of dropping is not checked: an opcode of RC that is not supported, a RETH that
// asks for too much, and a payload that does not fit the path's MTU (payload_fits()). Pure. Thread: values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "roce/drop_reason.h"
#include "roce/opcode.h"
#include "verbs/ids.h"

namespace pvrdma::roce {

inline constexpr std::uint16_t kDefaultPkey = 0xffff;
inline constexpr std::uint32_t kMulticastQpn = 0xff'ffff;
inline constexpr std::uint32_t kMtuBytesMax = 4096;
inline constexpr std::uint32_t kIcrcBytes = 4;
inline constexpr std::uint32_t kDmaBytesMax = 1U << 31;  // the most that a RETH may ask for

// The AETH's first byte (IBTA vol. 1, 9.7.5.1).
inline constexpr std::uint8_t kSyndromeAck = 0x1f;     // without credits
inline constexpr std::uint8_t kSyndromeRnrNak = 0x20;  // plus the timer's code, 0…31
inline constexpr std::uint8_t kSyndromeNakSequence = 0x60;
inline constexpr std::uint8_t kSyndromeNakInvalidRequest = 0x61;
inline constexpr std::uint8_t kSyndromeNakRemoteAccess = 0x62;
inline constexpr std::uint8_t kSyndromeNakRemoteOperational = 0x63;

// Only the fields of those extension headers that the opcode has are meaningful.
struct Packet {
  Opcode opcode{};
  bool solicited = false;
  bool migrated = true;
  bool ack_request = false;
  bool fecn = false;
  bool becn = false;
  std::uint16_t pkey = kDefaultPkey;
  verbs::Qpn destination;
  verbs::Psn psn;

  // RETH and AtomicETH
  std::uint64_t remote_addr = 0;
  std::uint32_t rkey = 0;
  std::uint32_t dma_bytes = 0;        // RETH
  std::uint64_t swap_or_add = 0;      // AtomicETH
  std::uint64_t compare = 0;          // AtomicETH
  std::uint8_t syndrome = 0;          // AETH
  std::uint32_t msn = 0;              // AETH, 24 bits
  std::uint64_t atomic_original = 0;  // AtomicAckETH
  std::uint32_t immediate = 0;        // the application's four bytes as they lie in memory
  std::uint32_t invalidate_rkey = 0;  // IETH
  std::uint32_t qkey = 0;             // DETH
  verbs::Qpn source;                  // DETH

  std::span<const std::byte> payload;  // borrowed; without pad
};

// The bytes after the payload that pad it to a multiple of four.
constexpr std::uint32_t pad_bytes(std::uint32_t payload_bytes) {
  return -payload_bytes & 3;
}

// The bytes of headers, payload and pad.
constexpr std::uint32_t packet_bytes(Opcode opcode, std::uint32_t payload_bytes) {
  return header_bytes(opcode) + payload_bytes + pad_bytes(payload_bytes);
}

// Whether a packet of that opcode may have that much payload on a path with that MTU.
bool payload_fits(Opcode opcode, std::uint32_t payload_bytes, std::uint32_t mtu_bytes);

// Writes BTH and extension headers of a packet with `payload_bytes` bytes of payload to `out`, which has room
// for header_bytes(packet.opcode). Does not use `packet.payload`.
void build_headers(const Packet& packet, std::uint32_t payload_bytes, std::byte* out);

// `bytes` reach from the BTH to the pad. Errors: kShortPacket, kTransportVersion, kOpcode, kPkey,
// kDestination.
Parsed<Packet> parse_packet(std::span<const std::byte> bytes);

}  // namespace pvrdma::roce
