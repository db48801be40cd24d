// Writer: the archive that saves. See reader.h for what an archive is.
//
// Allocates while it writes, so use it only where no guest waits. Thread: one.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "state/stream.h"

namespace pvrdma::state {

class Writer {
 public:
  static constexpr bool kLoads = false;

  explicit Writer(const Head& head = {});

  void begin(RecordKind kind);
  void end();
  // Returns the records that were written since the last take(); not within a record.
  std::vector<std::byte> take();
  // How many bytes take() would return.
  std::size_t untaken() const { return out_.size(); }
  // Writes the end of the stream. Write nothing afterwards.
  void end_stream();
  // end_stream() and take().
  std::vector<std::byte> finish();

  template <std::unsigned_integral T>
  void number(std::string_view /*name*/, const T& value, T /*most*/ = static_cast<T>(~T{})) {
    put(value, sizeof(T));
  }
  void flag(std::string_view /*name*/, const bool& value) { put(value ? 1 : 0, 1); }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void choice(std::string_view /*name*/, const Enum& value, Enum /*first*/, Enum /*last*/) {
    put(static_cast<std::uint64_t>(value), 1);
  }
  // Printable ASCII.
  void text(std::string_view name, const std::string& value, std::uint32_t most);
  template <std::size_t size>
  void bytes(std::string_view /*name*/, const std::array<std::uint8_t, size>& value) {
    for (const std::uint8_t byte : value) put(byte, 1);
  }
  // `each(element)` describes one element.
  template <typename T, typename Each>
  void list(std::string_view /*name*/, std::vector<T>& values, std::uint32_t /*most*/,
            std::size_t /*bytes_at_least*/, Each each) {
    put(values.size(), 4);
    for (T& value : values) each(value);
  }
  // Page addresses, written as runs of consecutive pages.
  void pages(std::string_view name, const std::vector<std::uint64_t>& pages, std::uint32_t most);

 private:
  void put(std::uint64_t value, std::size_t bytes);

  std::vector<std::byte> out_;
  std::size_t record_ = 0;   // where the current record begins in out_
  std::uint64_t taken_ = 0;  // bytes
  std::uint32_t records_ = 0;
};

}  // namespace pvrdma::state
