// FuzzInput: a fuzzer's input, taken from the front. Beyond the end, values are 0 and take_bytes() returns
// nothing. So every input has a meaning, and a shorter input is a simpler one.
//
// Thread: a value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace pvrdma::test {

class FuzzInput {
 public:
  explicit FuzzInput(std::span<const std::byte> bytes) : bytes_(bytes) {}
  FuzzInput(const std::uint8_t* data, std::size_t size) : bytes_(std::as_bytes(std::span(data, size))) {}

  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::size_t size = std::min(sizeof value, bytes_.size());
    if (size != 0) std::memcpy(static_cast<void*>(&value), bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }
  std::uint8_t byte() { return take<std::uint8_t>(); }
  std::uint16_t u16() { return take<std::uint16_t>(); }
  std::uint32_t u32() { return take<std::uint32_t>(); }
  std::uint64_t u64() { return take<std::uint64_t>(); }

  std::span<const std::byte> take_bytes(std::size_t count) {
    const auto out = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(out.size());
    return out;
  }
  std::span<const std::byte> rest() { return take_bytes(bytes_.size()); }
  std::string_view rest_as_text() {
    const auto all = rest();
    return {reinterpret_cast<const char*>(all.data()), all.size()};
  }
  bool empty() const { return bytes_.empty(); }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace pvrdma::test
