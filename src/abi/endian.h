// Big-endian integers and byte-string addresses, as the guest's structures contain them.
//
// All other fields of the contract are little-endian plain integers. These types exist so that a big-endian
// field cannot be used without a conversion. Thread: values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "abi/layout.h"
#include "base/network_order.h"
#include "vocabulary/mac.h"

namespace pvrdma::abi {

// A 32-bit integer in network byte order. `raw` is the stored form.
struct Be32 {
  std::uint32_t raw = 0;

  static constexpr Be32 from_host(std::uint32_t value) { return Be32{network_order(value)}; }
  constexpr std::uint32_t to_host() const { return network_order(raw); }
  friend constexpr bool operator==(Be32, Be32) = default;
};

// A 64-bit integer in network byte order. `raw` is the stored form.
struct Be64 {
  std::uint64_t raw = 0;

  static constexpr Be64 from_host(std::uint64_t value) { return Be64{network_order(value)}; }
  constexpr std::uint64_t to_host() const { return network_order(raw); }
  friend constexpr bool operator==(Be64, Be64) = default;
};

// A RoCE global identifier: 16 bytes in network order.
struct Gid {
  std::array<std::uint8_t, 16> raw{};

  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
};

using pvrdma::Mac;

PVRDMA_ABI_STRUCT(Be32, 4);
PVRDMA_ABI_STRUCT(Be64, 8);
PVRDMA_ABI_STRUCT(Gid, 16);
PVRDMA_ABI_STRUCT(Mac, 6);

}  // namespace pvrdma::abi
