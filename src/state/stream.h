// The form of a saved state (ADR 16): a stream of records, little endian.
//
//   stream = head record* end
//   record = kind u16 | flags u16 | version u16 | reserved u16 | length u32 | body | crc32c u32
//
// The checksum covers everything before it in the record. The body of the head is kMagic u64, kFormat u16 and
// a Head. The body of the end is the number of records between head and end, u32, and the number of bytes
// before the end, u64. Thread: values.
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
// A flag: a reader that does not know the kind refuses the stream. Without the flag it skips the record.
inline constexpr std::uint16_t kMustUnderstand = 1;

inline constexpr std::size_t kRecordHeadBytes = 12;
inline constexpr std::size_t kRecordTailBytes = 4;
// No object is larger: the longest list is that of a memory region's pages.
inline constexpr std::uint32_t kRecordBytesMax = 8u << 20;

// Who saved the state, and why. The product version is for people only: the records' own versions decide
// whether they can be read.
struct Head {
  std::string product_version;
  std::array<std::uint8_t, 16> id{};  // chosen by the writer, so that no other state is taken for this one
  friend bool operator==(const Head&, const Head&) = default;
};
inline constexpr std::uint32_t kProductVersionBytesMax = 32;

// The kind of a record, and the version of the format of its body.
struct RecordKind {
  std::uint16_t kind;
  std::uint16_t version;
  friend bool operator==(const RecordKind&, const RecordKind&) = default;
};

}  // namespace pvrdma::state
