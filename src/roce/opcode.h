// The supported opcodes of the base transport header: all of RC up to send with invalidate, UD and CNP; and
// what follows the header for each of them (IBTA vol. 1, 9.2 and table 38; RoCE annex A17 for CNP).
// kUnsupportedRequest stands for all other opcodes of RC: a responder answers them. Thread: values.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace pvrdma::roce {

// The values are those on the wire.
enum class Opcode : std::uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImmediate = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImmediate = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImmediate = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImmediate = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInvalidate = 0x16,
  kSendOnlyInvalidate = 0x17,
  kUnsupportedRequest =
      0x1f,  // reserved; also FLUSH (0x1c), ATOMIC WRITE (0x1d) and what is reserved besides
  kUdSendOnly = 0x64,
  kUdSendOnlyImmediate = 0x65,
  kCongestionNotification = 0x81,
};

// The extension headers, in their order on the wire. A set of them is their sum.
enum Extension : std::uint8_t {
  kNoExtension = 0,
  kDeth = 1,
  kReth = 2,
  kAeth = 4,
  kAtomicEth = 8,
  kAtomicAckEth = 16,
  kImmediate = 32,
  kInvalidate = 64,
};

// How many bytes of payload a packet may have (IBTA vol. 1, 9.2.2).
enum class PayloadRule : std::uint8_t {
  kNone,
  kMtu,       // exactly the path's MTU
  kOneToMtu,  // the last packet of a message that has several
  kUpToMtu,   // the only packet of a message
  kSixteen,   // a CNP's reserved bytes
  kAny,       // what follows is not known
};

struct OpcodeRule {
  Opcode opcode;
  std::uint8_t extensions;  // a set of Extension
  PayloadRule payload;
};

inline constexpr std::array kOpcodes{
    OpcodeRule{Opcode::kSendFirst, kNoExtension, PayloadRule::kMtu},
    OpcodeRule{Opcode::kSendMiddle, kNoExtension, PayloadRule::kMtu},
    OpcodeRule{Opcode::kSendLast, kNoExtension, PayloadRule::kOneToMtu},
    OpcodeRule{Opcode::kSendLastImmediate, kImmediate, PayloadRule::kOneToMtu},
    OpcodeRule{Opcode::kSendOnly, kNoExtension, PayloadRule::kUpToMtu},
    OpcodeRule{Opcode::kSendOnlyImmediate, kImmediate, PayloadRule::kUpToMtu},
    OpcodeRule{Opcode::kWriteFirst, kReth, PayloadRule::kMtu},
    OpcodeRule{Opcode::kWriteMiddle, kNoExtension, PayloadRule::kMtu},
    OpcodeRule{Opcode::kWriteLast, kNoExtension, PayloadRule::kOneToMtu},
    OpcodeRule{Opcode::kWriteLastImmediate, kImmediate, PayloadRule::kOneToMtu},
    OpcodeRule{Opcode::kWriteOnly, kReth, PayloadRule::kUpToMtu},
    OpcodeRule{Opcode::kWriteOnlyImmediate, kReth | kImmediate, PayloadRule::kUpToMtu},
    OpcodeRule{Opcode::kReadRequest, kReth, PayloadRule::kNone},
    OpcodeRule{Opcode::kReadResponseFirst, kAeth, PayloadRule::kMtu},
    OpcodeRule{Opcode::kReadResponseMiddle, kNoExtension, PayloadRule::kMtu},
    OpcodeRule{Opcode::kReadResponseLast, kAeth, PayloadRule::kOneToMtu},
    OpcodeRule{Opcode::kReadResponseOnly, kAeth, PayloadRule::kUpToMtu},
    OpcodeRule{Opcode::kAcknowledge, kAeth, PayloadRule::kNone},
    OpcodeRule{Opcode::kAtomicAcknowledge, kAeth | kAtomicAckEth, PayloadRule::kNone},
    OpcodeRule{Opcode::kCompareSwap, kAtomicEth, PayloadRule::kNone},
    OpcodeRule{Opcode::kFetchAdd, kAtomicEth, PayloadRule::kNone},
    OpcodeRule{Opcode::kSendLastInvalidate, kInvalidate, PayloadRule::kOneToMtu},
    OpcodeRule{Opcode::kSendOnlyInvalidate, kInvalidate, PayloadRule::kUpToMtu},
    OpcodeRule{Opcode::kUnsupportedRequest, kNoExtension, PayloadRule::kAny},
    OpcodeRule{Opcode::kUdSendOnly, kDeth, PayloadRule::kUpToMtu},
    OpcodeRule{Opcode::kUdSendOnlyImmediate, kDeth | kImmediate, PayloadRule::kUpToMtu},
    OpcodeRule{Opcode::kCongestionNotification, kNoExtension, PayloadRule::kSixteen},
};

namespace internal {
// By value on the wire. 0: unknown; otherwise the index in kOpcodes plus one.
inline constexpr auto kPlaces = [] {
  std::array<std::uint8_t, 256> places{};
  for (std::size_t i = 0; i < kOpcodes.size(); ++i) {
    places[static_cast<std::size_t>(kOpcodes[i].opcode)] = static_cast<std::uint8_t>(i + 1);
  }
  return places;
}();
}  // namespace internal

constexpr const OpcodeRule& rule_of(Opcode opcode) {
  return kOpcodes[internal::kPlaces[static_cast<std::size_t>(opcode)] - 1];
}
// Null: the opcode is not supported, and is none of RC.
constexpr const OpcodeRule* find_rule(std::uint8_t wire) {
  constexpr std::uint8_t kFirstBeyondRc = 0x20;
  const std::uint8_t place = internal::kPlaces[wire];
  if (place != 0) return &kOpcodes[place - 1];
  return wire < kFirstBeyondRc ? &rule_of(Opcode::kUnsupportedRequest) : nullptr;
}
constexpr bool has(Opcode opcode, Extension extension) {
  return (rule_of(opcode).extensions & extension) != 0;
}

inline constexpr std::uint32_t kBthBytes = 12;

// The bytes of the base transport header and the extension headers.
constexpr std::uint32_t header_bytes(Opcode opcode) {
  constexpr std::array<std::uint8_t, 7> kBytes{8, 16, 4, 28, 8, 4, 4};  // by bit of Extension
  std::uint32_t bytes = kBthBytes;
  for (std::size_t bit = 0; bit < kBytes.size(); ++bit) {
    if ((rule_of(opcode).extensions >> bit & 1) != 0) bytes += kBytes[bit];
  }
  return bytes;
}

}  // namespace pvrdma::roce
