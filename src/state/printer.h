// Printer: the archive that prints a saved state as text, one field per line. It checks what a Reader checks.
// The text up to the first error shows the values that a Reader would have loaded. Thread: one.
#pragma once

#include <string>

#include "state/reader.h"

namespace pvrdma::state {

class Printer : private Reader {
 public:
  using Reader::failed;
  using Reader::kLoads;
  using Reader::Record;
  using Reader::refuse;
  using Reader::result;

  explicit Printer(std::span<const std::byte> stream);

  std::optional<Record> next() {
    const std::optional<Record> record = Reader::next();
    if (record)
      text_ += "record " + std::to_string(record->kind.kind) + " version " +
               std::to_string(record->kind.version) + "\n";
    return record;
  }
  // Prints a name after the line of the record that was just opened.
  void title(std::string_view name) {
    text_.pop_back();
    text_.append(": ").append(name) += '\n';
  }
  void skip(const Record& record) {
    Reader::skip(record);
    line("not known here", "");
  }

  template <std::unsigned_integral T>
  void number(std::string_view name, T& value, T most = static_cast<T>(~T{})) {
    Reader::number(name, value, most);
    line(name, std::to_string(value));
  }
  void flag(std::string_view name, bool& value) {
    Reader::flag(name, value);
    line(name, value ? "yes" : "no");
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void choice(std::string_view name, Enum& value, Enum first, Enum last) {
    Reader::choice(name, value, first, last);
    line(name, std::to_string(static_cast<std::uint64_t>(value)));
  }
  void text(std::string_view name, std::string& value, std::uint32_t most) {
    Reader::text(name, value, most);
    line(name, '"' + value + '"');
  }
  template <std::size_t size>
  void bytes(std::string_view name, std::array<std::uint8_t, size>& value) {
    Reader::bytes(name, value);
    line(name, hex(value));
  }
  template <typename T, typename Each>
  void list(std::string_view name, std::vector<T>& values, std::uint32_t most, std::size_t bytes_at_least,
            Each each) {
    values.clear();
    values.resize(take_count(name, most, bytes_at_least));
    line(name, std::to_string(values.size()));
    std::uint32_t index = 0;
    for (T& value : values) {
      line(std::string(name) + "[" + std::to_string(index++) + "]", "");
      each(value);
    }
  }
  void pages(std::string_view name, std::vector<std::uint64_t>& pages, std::uint32_t most);

  // The text of everything read so far.
  const std::string& text() const { return text_; }

 private:
  void line(std::string_view name, std::string_view value);
  static std::string hex(std::span<const std::uint8_t> bytes);

  std::string text_;
};

}  // namespace pvrdma::state
