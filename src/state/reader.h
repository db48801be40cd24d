// Reader: the archive that loads, from bytes of another host, which may say anything.
//
// An archive is what a type is described to: `describe(archive, value)` names its fields one after the other,
// and the same function saves (Writer), loads (Reader) and prints (Printer). So what is written and what is
// read cannot differ.
//
// The reader never throws, never reads beyond a record, makes no list longer than the record has bytes for,
// and keeps the first fault: afterwards every field is 0 and every list empty, and who reads looks once, at
// the end. The bytes are borrowed. Thread: one.
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

  // Checks the head; a stream without a proper one is a fault at once.
  explicit Reader(std::span<const std::byte> stream);

  // Nothing after a fault of it.
  const Head& head() const { return head_; }

  struct Record {
    RecordKind kind;
    bool must_be_understood;
  };
  // The next record, whole and unchanged as its checksum says; nothing at the end of the stream, which is
  // checked, and after a fault. What was left unread of the record before is a fault unless skip() was
  // called.
  std::optional<Record> next();
  // Of a record whose kind is not known here: passes over it, or refuses the stream.
  void skip(const Record& record);

  // Refuses the stream. The first reason counts.
  void refuse(std::string why);
  bool failed() const { return fault_.has_value(); }
  // Nothing was wrong, or the first thing that was.
  Result<> result() const;

  // `most`: a value above it is a fault.
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
  // At most `most` elements, each of at least so many bytes (not 0) in the stream.
  template <typename T, typename Each>
  void list(std::string_view name, std::vector<T>& values, std::uint32_t most, std::size_t bytes_at_least,
            Each each) {
    values.clear();
    values.resize(take_count(name, most, bytes_at_least));
    for (T& value : values) each(value);
  }
  // Addresses of pages, aligned; at most `most`.
  void pages(std::string_view name, std::vector<std::uint64_t>& pages, std::uint32_t most);

 protected:
  // Of a list that follows.
  std::uint32_t take_count(std::string_view name, std::uint32_t most, std::size_t bytes_at_least);

 private:
  std::uint64_t take(std::size_t bytes);
  std::uint64_t checked(std::string_view name, std::uint64_t value, std::uint64_t least, std::uint64_t most);
  std::optional<Record> open_record();

  std::size_t total_bytes_;
  std::span<const std::byte> left_;  // of the stream
  std::span<const std::byte> body_;  // of the record, not read yet
  std::uint32_t records_ = 0;        // without head and end
  bool ended_ = false;
  std::optional<std::string> fault_;
  Head head_;
};

}  // namespace pvrdma::state
