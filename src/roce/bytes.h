// Fields in network order, one after the other. The caller has made sure of the room. Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace pvrdma::roce {

class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}

  template <typename T>
  void put(T value) {
    static_assert(std::is_unsigned_v<T>);
    for (std::size_t i = sizeof value; i-- > 0;) *at_++ = static_cast<std::byte>(value >> (8 * i));
  }
  void put24(std::uint32_t value) {
    put(static_cast<std::uint8_t>(value >> 16));
    put(static_cast<std::uint16_t>(value));
  }
  // As they are.
  void put_bytes(const void* bytes, std::size_t size) {
    std::memcpy(at_, bytes, size);
    at_ += size;
  }
  std::byte* at() const { return at_; }

 private:
  std::byte* at_;
};

class Reader {
 public:
  explicit Reader(const std::byte* at) : at_(at) {}

  template <typename T>
  T take() {
    static_assert(std::is_unsigned_v<T>);
    T value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i) {
      value = static_cast<T>(static_cast<std::uint64_t>(value) << 8 | std::to_integer<std::uint64_t>(*at_++));
    }
    return value;
  }
  std::uint32_t take24() {
    const std::uint32_t high = take<std::uint8_t>();
    return high << 16 | take<std::uint16_t>();
  }
  void take_bytes(void* into, std::size_t size) {
    std::memcpy(into, at_, size);
    at_ += size;
  }
  void skip(std::size_t size) { at_ += size; }
  const std::byte* at() const { return at_; }

 private:
  const std::byte* at_;
};

}  // namespace pvrdma::roce
