// Identifiers of the verbs engine: GIDs, QP numbers, sequence numbers, keys and handles. Thread: values.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "base/strong.h"
#include "vocabulary/mac.h"
#include "vocabulary/roce_version.h"

namespace pvrdma::verbs {

// A QP number: 24 bits (kQpnMax). 0 is never used, 1 is the GSI QP, all others start at 2.
using Qpn = Strong<struct QpnTag, std::uint32_t>;
inline constexpr Qpn kGsiQpn{1};
inline constexpr std::uint32_t kQpnMax = 0xff'ffff;

// Where a peer is: 0: on this host; otherwise as the wire numbers the places beyond it.
using PeerPlace = Strong<struct PeerPlaceTag, std::uint32_t>;

// Handles in commands, doorbells and completions: indices into this adapter's tables.
using ContextHandle = Strong<struct ContextHandleTag, std::uint32_t>;
using PdHandle = Strong<struct PdHandleTag, std::uint32_t>;
using MrHandle = Strong<struct MrHandleTag, std::uint32_t>;
using CqHandle = Strong<struct CqHandleTag, std::uint32_t>;
using QpHandle = Strong<struct QpHandleTag, std::uint32_t>;
using SrqHandle = Strong<struct SrqHandleTag, std::uint32_t>;

// The kernel's own context. Its objects may do what those of user processes may not (reference 9.2).
inline constexpr ContextHandle kKernelContext{0};

// A 24-bit number that counts up and wraps.
template <typename Tag>
struct Serial {
  static constexpr std::uint32_t kMask = 0xff'ffff;
  std::uint32_t value = 0;

  constexpr Serial() = default;
  constexpr explicit Serial(std::uint32_t v) : value(v & kMask) {}
  constexpr Serial next() const { return *this + 1; }
  friend constexpr Serial operator+(Serial a, std::uint32_t count) { return Serial(a.value + count); }
  friend constexpr bool operator==(Serial, Serial) = default;
};

// Counts the messages of an RC connection. It does not depend on the path beneath, so the path may change
// (ADR 1).
using MessageNumber = Serial<struct MessageNumberTag>;
// Counts the packets of an RC connection, as the guest and QUERY_QP see it.
using Psn = Serial<struct PsnTag>;

// How far `a` is ahead of `b`; negative if it is behind. Correct for distances below 2^23.
template <typename Tag>
constexpr std::int32_t distance(Serial<Tag> a, Serial<Tag> b) {
  return static_cast<std::int32_t>((a.value - b.value) << 8) >> 8;
}

struct Gid {
  std::array<std::uint8_t, 16> bytes{};  // network order, as on the wire and in guest memory

  bool is_zero() const { return *this == Gid{}; }
  // ::ffff:a.b.c.d
  bool is_ipv4_mapped() const {
    static constexpr std::array<std::uint8_t, 12> kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(bytes.data(), kPrefix.data(), kPrefix.size()) == 0;
  }
  // In the format of inet_ntop: "fe80::…", "::ffff:192.168.11.51".
  std::string to_string() const;

  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
  friend constexpr bool operator==(const Gid& a, const Gid& b) {  // two words, on every message
    struct Words {
      std::uint64_t high, low;
    };
    const Words x = std::bit_cast<Words>(a.bytes);
    const Words y = std::bit_cast<Words>(b.bytes);
    return ((x.high ^ y.high) | (x.low ^ y.low)) == 0;
  }
};

// The MAC from which the GID's interface identifier was made (EUI-64), whatever the prefix; nullopt if it was
// not made from a MAC.
std::optional<Mac> mac_in(const Gid& gid);

struct GidHash {
  std::size_t operator()(const Gid& gid) const noexcept {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::memcpy(&high, gid.bytes.data(), 8);
    std::memcpy(&low, gid.bytes.data() + 8, 8);
    return std::hash<std::uint64_t>{}(high * 0x9e37'79b9'7f4a'7c15ULL ^ low);
  }
};

using pvrdma::RoceVersion;

// One end of a connection, identified by GID and QP number on every path (ADR 1).
struct Endpoint {
  Gid gid;
  Qpn qpn;
  friend constexpr bool operator==(const Endpoint&, const Endpoint&) = default;
};

}  // namespace pvrdma::verbs
