// The form of a saved state (ADR 16): a stream of records, little endian.
//
//   stream = head record* end
//   record = kind u16 | flags u16 | version u16 | reserved u16 | length u32 | body | crc32c u32
//
// The checksum is of all that comes before it in the record. The head's body is kMagic u64, kFormat u16 and a
// Head; the end's is the number of records between the two, u32, and of bytes before it, u64. Thread: values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace pvrdma::state {

inline constexpr std::uint64_t kMagic = 0x5441'5453'4d44'5650;  // "PVDMSTAT"
inline constexpr std::uint16_t kFormat = 1;

inline constexpr std::uint16_t kHeadKind = 0;
inline constexpr std::uint16_t kEndKind = 0xffff;
// A reader that does not know the kind refuses the stream; others it skips.
inline constexpr std::uint16_t kMustUnderstand = 1;

inline constexpr std::size_t kRecordHeadBytes = 12;
inline constexpr std::size_t kRecordTailBytes = 4;
// No object is larger: the longest list is of a memory region's pages.
inline constexpr std::uint32_t kRecordBytesMax = 8u << 20;

// Who saved, and what for. The version is for people: which records can be read, their own versions say.
struct Head {
  std::string product_version;
  std::array<std::uint8_t, 16> id{};  // chosen by who saves, so that a state is not taken for another
  friend bool operator==(const Head&, const Head&) = default;
};
inline constexpr std::uint32_t kProductVersionBytesMax = 32;

// What a record is and by which rules its body was written.
struct RecordKind {
  std::uint16_t kind;
  std::uint16_t version;
  friend bool operator==(const RecordKind&, const RecordKind&) = default;
};

}  // namespace pvrdma::state
