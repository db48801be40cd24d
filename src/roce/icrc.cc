#include "roce/icrc.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <isa-l/crc.h>

#include "base/check.h"
#include "roce/opcode.h"

namespace pvrdma::roce {
namespace {

constexpr std::byte kOnes{0xff};
constexpr std::size_t kLinkHeaderBytes = 8;  // InfiniBand's link header, which Ethernet lacks: all ones
constexpr std::size_t kUdpChecksum = 6;
constexpr std::size_t kUdpBytes = 8;
constexpr std::size_t kBthReserved = 4;  // the byte that also has FECN and BECN
constexpr std::size_t kHeadBytesMax = kLinkHeaderBytes + 48 + kBthBytes;

std::uint32_t crc(std::uint32_t before, const std::byte* bytes, std::size_t size) {
  return crc32_gzip_refl(before, reinterpret_cast<const unsigned char*>(bytes), size);
}

void hide_ipv4(std::byte* header) {
  header[1] = header[8] = header[10] = header[11] = kOnes;  // TOS, TTL, checksum
}

// Hides traffic class, flow label and hop limit, also those of a GRH.
void hide_ipv6(std::byte* header) {
  header[0] |= std::byte{0x0f};
  header[1] = header[2] = header[3] = header[7] = kOnes;
}

}  // namespace

std::uint32_t icrc(Encapsulation encapsulation, std::span<const std::byte> packet) {
  const std::size_t network = network_bytes(encapsulation);
  const std::size_t head = network + kBthBytes;
  PVRDMA_CHECK(packet.size() >= head, "an ICRC covers network header and BTH");
  std::array<std::byte, kHeadBytesMax> hidden;
  std::fill_n(hidden.begin(), kLinkHeaderBytes, kOnes);
  std::byte* const copy = hidden.data() + kLinkHeaderBytes;
  std::memcpy(copy, packet.data(), head);
  if (encapsulation == Encapsulation::kV2Ipv4) {
    hide_ipv4(copy);
  } else {
    hide_ipv6(copy);
  }
  if (encapsulation != Encapsulation::kV1) {
    std::byte* const udp = copy + network - kUdpBytes;
    udp[kUdpChecksum] = udp[kUdpChecksum + 1] = kOnes;
  }
  copy[network + kBthReserved] = kOnes;
  return crc(crc(0, hidden.data(), kLinkHeaderBytes + head), packet.data() + head, packet.size() - head);
}

}  // namespace pvrdma::roce
