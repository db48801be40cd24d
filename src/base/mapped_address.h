// The 16 bytes of an IPv6 address, or of ::ffff:a.b.c.d for an IPv4 address: the form of GIDs. Thread: pure
// functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/ip_address.h"

namespace pvrdma {

// What stands before the 4 bytes of an IPv4 address.
inline constexpr std::array<std::uint8_t, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

inline bool is_mapped(const std::array<std::uint8_t, 16>& bytes) {
  return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), bytes.begin());
}

// fe80::/10: of one link, so programs name the link by a scope id, too.
inline bool is_link_local(const std::array<std::uint8_t, 16>& bytes) {
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

// `address` has the 4 bytes of an IPv4 address, in network order.
inline std::array<std::uint8_t, 16> mapped_ipv4(const void* address) {
  std::array<std::uint8_t, 16> bytes{};
  std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), bytes.begin());
  std::memcpy(bytes.data() + kMappedPrefix.size(), address, bytes.size() - kMappedPrefix.size());
  return bytes;
}

inline std::array<std::uint8_t, 16> mapped_address(const IpAddress& address) {
  return address.is_v6() ? address.raw() : mapped_ipv4(address.raw().data());
}

}  // namespace pvrdma
