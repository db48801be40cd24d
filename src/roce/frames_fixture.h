// Makes frames for tests: from hexadecimal digits, and one for each opcode and encapsulation. Thread: values.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "roce/frame.h"

namespace pvrdma::roce {

using Bytes = std::vector<std::byte>;

// Turns hexadecimal digits into bytes; ignores blanks.
inline Bytes from_hex(std::string_view text) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  Bytes bytes;
  unsigned value = 1;
  for (const char c : text) {
    if (c == ' ') continue;
    value = value << 4 | digit(c);
    if (value < 256) continue;
    bytes.push_back(static_cast<std::byte>(value));
    value = 1;
  }
  return bytes;
}

inline Envelope envelope(Encapsulation encapsulation) {
  Envelope made;
  made.source_mac = {{0x52, 0x54, 0x00, 0x12, 0x34, 0x51}};
  made.destination_mac = {{0x52, 0x54, 0x00, 0x12, 0x34, 0x52}};
  made.version = encapsulation == Encapsulation::kV1 ? RoceVersion::kV1 : RoceVersion::kV2;
  if (encapsulation == Encapsulation::kV2Ipv4) {
    made.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 11, 51};
    made.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 11, 52};
  } else {
    made.source.bytes = {0xfd, 0, 0, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x51};
    made.destination.bytes = {0xfd, 0, 0, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x52};
    made.flow_label = 0x12345;
  }
  made.traffic_class = 0xa2;
  made.hop_limit = 7;
  made.source_port = encapsulation == Encapsulation::kV1 ? kSourcePortMin : std::uint16_t{0xc121};
  return made;
}

// A packet with a value in each field that the opcode has.
inline Packet packet(Opcode opcode, std::span<const std::byte> payload = {}) {
  Packet made;
  made.opcode = opcode;
  made.solicited = true;
  made.ack_request = true;
  made.destination = verbs::Qpn(0x12'3456);
  made.psn = verbs::Psn(0xfe'dcba);
  if (has(opcode, kReth) || has(opcode, kAtomicEth)) {
    made.remote_addr = 0x1122'3344'5566'7788;
    made.rkey = 0x0a0b'0c0d;
  }
  if (has(opcode, kReth)) made.dma_bytes = 0x7fff'ffff;
  if (has(opcode, kAtomicEth)) {
    made.swap_or_add = 0x0102'0304'0506'0708;
    made.compare = 0x1112'1314'1516'1718;
  }
  if (has(opcode, kAeth)) {
    made.syndrome = kSyndromeNakRemoteAccess;
    made.msn = 0xab'cdef;
  }
  if (has(opcode, kAtomicAckEth)) made.atomic_original = 0x2122'2324'2526'2728;
  if (has(opcode, kImmediate)) made.immediate = 0x0403'0201;
  if (has(opcode, kInvalidate)) made.invalidate_rkey = 0x3132'3334;
  if (has(opcode, kDeth)) {
    made.qkey = 0x8001'0000;
    made.source = verbs::Qpn(0x65'4321);
  }
  made.payload = payload;
  return made;
}

inline Bytes built(const Frame& frame) {
  Bytes bytes(kFrameBytesMax);
  bytes.resize(build(frame, bytes.data()));
  return bytes;
}

}  // namespace pvrdma::roce
