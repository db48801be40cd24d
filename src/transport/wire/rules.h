// The rules of the wire format that writing and reading have in common: sizes, and what may stand in a field.
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

// Bodies without their text.
inline constexpr std::size_t kVersionEndBytes = 10;  // magic and version: alike in all versions
inline constexpr std::size_t kHelloBytes = 32;       // Welcome's too
inline constexpr std::size_t kRejectBytes = 16;
inline constexpr std::size_t kRequestBytes = 96;
inline constexpr std::size_t kResponseBytes = 64;
inline constexpr std::size_t kDatagramBytes = 64;
inline constexpr std::size_t kPingBytes = 8;
inline constexpr std::size_t kGoodbyeBytes = 4;
static_assert(kHeadBytesMax == kHeaderBytes + kRejectBytes + kSentenceBytesMax);

bool is_sentence(std::string_view text);

// Whether a response has an original value, of an atomic.
bool carries_original(const verbs::Response& response);

// What is wrong with a meaning. Fields that it does not use are not looked at.
Defect defect_of(SegmentId segment);
Defect defect_of(const verbs::Request& request);
Defect defect_of(const verbs::Response& response);
Defect defect_of(const verbs::Datagram& datagram);
Defect defect_of(const Hello& hello);
Defect defect_of(const Welcome& welcome);
Defect defect_of(const Reject& reject);
Defect defect_of(const Goodbye& goodbye);

// The first that is one.
inline Defect first_of(std::initializer_list<Defect> defects) {
  for (const Defect defect : defects) {
    if (defect != Defect::kNone) return defect;
  }
  return Defect::kNone;
}

}  // namespace pvrdma::transport::wire
