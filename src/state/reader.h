// Reader: the archive that loads a state. The bytes come from another host and may be arbitrary.
//
// `describe(archive, value)` names the fields of a type to an archive, one after the other. The same function
// saves (Writer), loads (Reader) and prints (Printer). So the written and the read format cannot differ.
//
// The reader never throws, never reads beyond a record, and makes no list longer than the record has bytes
// for. It keeps the first error: afterwards every field has its least value and every list is empty, so the
// caller checks once, at the end. The bytes are borrowed. Thread: one.
//
// A stream may also come in pieces. The caller then asks holds_record() before it makes the reader and before
// each next(), and continues with go_on().
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "state/stream.h"

namespace pvrdma::state {

class Reader {
 public:
  static constexpr bool kLoads = true;

  // Checks the head. If the stream has no valid head, the reader has failed at once.
  explicit Reader(std::span<const std::byte> stream);

  // Whether the stream's next record is complete at the beginning of `bytes`, or its length is invalid.
  static bool holds_record(std::span<const std::byte> bytes);
  // Between two records: the bytes that follow. They replace those that are unread.
  void go_on(std::span<const std::byte> bytes) { left_ = bytes; }
  std::span<const std::byte> unread() const { return left_; }

  // Empty if the head was invalid.
  const Head& head() const { return head_; }

  struct Record {
    RecordKind kind;
    bool must_be_understood;
  };
  // The next record. It is complete, and its checksum is right. Returns nothing after an error, and nothing
  // at the end of the stream, after checking the end. It is an error if the caller left bytes of the previous
  // record unread and did not call skip().
  std::optional<Record> next();
  // Call it for a record of unknown kind. Skips the record, or refuses the stream if the record must be
  // understood.
  void skip(const Record& record);

  // Refuses the stream. Only the first reason is kept.
  void refuse(std::string why);
  bool failed() const { return fault_.has_value(); }
  // Success, or the first error.
  Result<> result() const;

  // A value above `most` is an error.
  template <std::unsigned_integral T>
  void number(std::string_view name, T& value, T most = static_cast<T>(~T{})) {
    value = static_cast<T>(checked(name, take(sizeof(T)), 0, most));
  }
  void flag(std::string_view name, bool& value) { value = checked(name, take(1), 0, 1) != 0; }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void choice(std::string_view name, Enum& value, Enum first, Enum last) {
    value = static_cast<Enum>(
        checked(name, take(1), static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last)));
  }
  // Printable ASCII, at most `most` characters.
  void text(std::string_view name, std::string& value, std::uint32_t most);
  template <std::size_t size>
  void bytes(std::string_view /*name*/, std::array<std::uint8_t, size>& value) {
    for (std::uint8_t& byte : value) byte = static_cast<std::uint8_t>(take(1));
  }
  // A list of at most `most` elements, each of which takes at least `bytes_at_least` bytes (not 0) in the
  // stream.
  template <typename T, typename Each>
  void list(std::string_view name, std::vector<T>& values, std::uint32_t most, std::size_t bytes_at_least,
            Each each) {
    values.clear();
    values.resize(take_count(name, most, bytes_at_least));
    for (T& value : values) each(value);
  }
  // Page addresses, which must be aligned; at most `most`.
  void pages(std::string_view name, std::vector<std::uint64_t>& pages, std::uint32_t most);

 protected:
  // Reads the length of the list that follows.
  std::uint32_t take_count(std::string_view name, std::uint32_t most, std::size_t bytes_at_least);

 private:
  std::uint64_t take(std::size_t bytes);
  std::uint64_t checked(std::string_view name, std::uint64_t value, std::uint64_t least, std::uint64_t most);
  std::optional<Record> open_record();

  std::uint64_t bytes_before_ = 0;   // of the current record
  std::uint64_t bytes_ = 0;          // of all records so far
  std::span<const std::byte> left_;  // the rest of the stream
  std::span<const std::byte> body_;  // the unread rest of the record
  std::uint32_t records_ = 0;        // without head and end
  bool ended_ = false;
  std::optional<std::string> fault_;
  Head head_;
};

}  // namespace pvrdma::state
