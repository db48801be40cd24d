// The rules that encoding and decoding share: sizes, and the valid values of fields.
//
// Thread: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <variant>

#include "transport/wire/format.h"

namespace pvrdma::transport::wire {

enum class Kind : std::uint8_t {
  kHello = 1,
  kWelcome,
  kReject,
  kRequest,
  kResponse,
  kDatagram,
  kPing,
  kGoodbye,
};
static_assert(std::variant_size_v<Body> == static_cast<std::size_t>(Kind::kGoodbye));

inline constexpr std::uint64_t kMagic = 0x89'50'56'52'44'4d'41'0a;  // 0x89 "PVRDMA" LF
inline constexpr std::uint8_t kSolicitedBit = 1;

// Sizes of bodies without their text.
inline constexpr std::size_t kVersionEndBytes = 10;  // magic and version: the same in all versions
inline constexpr std::size_t kHelloBytes = 32;       // also Welcome's
inline constexpr std::size_t kShardHelloBytes = 36;  // of a Hello that names shards
inline constexpr std::size_t kRejectBytes = 16;
inline constexpr std::size_t kRequestBytes = 96;
inline constexpr std::size_t kResponseBytes = 64;
inline constexpr std::size_t kDatagramBytes = 64;
inline constexpr std::size_t kPingBytes = 8;
inline constexpr std::size_t kGoodbyeBytes = 4;
static_assert(kHeadBytesMax == kHeaderBytes + kRejectBytes + kSentenceBytesMax);

// Whether the Hello has kShardHelloVersion.
bool names_shards(const Hello& hello);

bool is_sentence(std::string_view text);

// Whether a response carries an atomic's original value.
bool carries_original(const verbs::Response& response);

// What is wrong with a decoded value. Fields that it does not use are ignored.
Defect defect_of(SegmentId segment);
Defect defect_of(const verbs::Request& request);
Defect defect_of(const verbs::Response& response);
Defect defect_of(const verbs::Datagram& datagram);
Defect defect_of(const Hello& hello);
Defect defect_of(const Welcome& welcome);
Defect defect_of(const Reject& reject);
Defect defect_of(const Goodbye& goodbye);

// The first fault in the list, or kNone.
inline Defect first_of(std::initializer_list<Defect> defects) {
  for (const Defect defect : defects) {
    if (defect != Defect::kNone) return defect;
  }
  return Defect::kNone;
}

}  // namespace pvrdma::transport::wire
