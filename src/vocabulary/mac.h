// Mac: an Ethernet address. The guest's structures contain it as it is: six bytes, no padding. Thread:
// values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pvrdma {

struct Mac {
  std::array<std::uint8_t, 6> raw{};  // first byte first on the wire

  // "52:54:00:12:34:51", either case.
  static std::optional<Mac> parse(std::string_view text);
  std::string to_string() const;  // lower case

  bool is_zero() const { return *this == Mac{}; }
  bool is_multicast() const { return (raw.front() & 1) != 0; }
  // True if an interface may have this address as its own.
  bool is_unicast() const { return !is_zero() && !is_multicast(); }

  friend constexpr auto operator<=>(const Mac&, const Mac&) = default;
};

}  // namespace pvrdma
