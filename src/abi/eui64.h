// The modified EUI-64 of a MAC (RFC 4291, appendix A): the end of its link-local address, and a device's
// GUID. Thread: pure functions.
#pragma once

#include <array>
#include <cstdint>

#include "abi/endian.h"

namespace pvrdma::abi {

constexpr std::array<std::uint8_t, 8> eui64(const Mac& mac) {
  const auto& m = mac.raw;
  return {static_cast<std::uint8_t>(m[0] ^ 2u), m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
}

}  // namespace pvrdma::abi
