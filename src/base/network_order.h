// NetworkWriter, NetworkReader: write and read fields in network order (big-endian), one after the other,
// without alignment. The caller ensures that there is room; a CHECK fails if there is not. Thread: one at a
// time.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"

namespace pvrdma {

// From host to network order, and back.
template <std::unsigned_integral T>
constexpr T network_order(T value) {
  static_assert(std::endian::native == std::endian::little && sizeof value <= 8);
  if constexpr (sizeof value == 2) return __builtin_bswap16(value);
  if constexpr (sizeof value == 4) return __builtin_bswap32(value);
  if constexpr (sizeof value == 8) return __builtin_bswap64(value);
  return value;
}

class NetworkWriter {
 public:
  explicit NetworkWriter(std::span<std::byte> room) : rest_(room) {}

  template <std::unsigned_integral T>
  void put(T value) {
    const T ordered = network_order(value);
    put_bytes(&ordered, sizeof ordered);
  }
  // The low 24 bits.
  void put24(std::uint32_t value) {
    put(static_cast<std::uint8_t>(value >> 16));
    put(static_cast<std::uint16_t>(value));
  }
  // Appends the bytes unchanged.
  void put_bytes(const void* bytes, std::size_t size) {
    std::byte* const at = advance(size);
    if (size != 0) std::memcpy(at, bytes, size);
  }
  void zeros(std::size_t size) {
    std::byte* const at = advance(size);
    if (size != 0) std::memset(at, 0, size);
  }
  // The part that is not written yet.
  std::span<std::byte> rest() const { return rest_; }

 private:
  std::byte* advance(std::size_t size) {
    PVRDMA_CHECK(size <= rest_.size(), "there is room for what is written");
    std::byte* const at = rest_.data();
    rest_ = rest_.subspan(size);
    return at;
  }

  std::span<std::byte> rest_;
};

class NetworkReader {
 public:
  explicit NetworkReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T take() {
    T ordered;
    take_bytes(&ordered, sizeof ordered);
    return network_order(ordered);
  }
  std::uint32_t take24() {
    const std::uint32_t high = take<std::uint8_t>();
    return high << 16 | take<std::uint16_t>();
  }
  // Takes the bytes unchanged.
  void take_bytes(void* into, std::size_t size) {
    const auto taken = take_view(size);
    if (size != 0) std::memcpy(into, taken.data(), size);
  }
  // Returns the bytes without a copy.
  std::span<const std::byte> take_view(std::size_t size) {
    PVRDMA_CHECK(size <= rest_.size(), "what is read is there");
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  void skip(std::size_t size) { take_view(size); }
  // The part that is not read yet.
  std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace pvrdma
