// The 16 bytes of an IPv6 address, or of ::ffff:a.b.c.d for an IPv4 address: the form of GIDs. Thread: pure
// functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/ip_address.h"

namespace pvrdma {

inline std::array<std::uint8_t, 16> mapped_address(const IpAddress& address) {
  if (address.is_v6()) return address.raw();
  std::array<std::uint8_t, 16> bytes{};
  bytes[10] = bytes[11] = 0xff;
  std::copy_n(address.raw().begin(), 4, bytes.begin() + 12);
  return bytes;
}

}  // namespace pvrdma
