// differing(): the difference between two saved values, with the names of their description. Thread: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "state/printer.h"
#include "state/writer.h"

namespace pvrdma::device {

template <typename Saved>
std::string printed(Saved saved) {
  state::Writer writer;
  writer.begin({1, 1});
  describe(writer, saved);
  writer.end();
  const std::vector<std::byte> bytes = writer.finish();
  state::Printer printer(bytes);
  static_cast<void>(printer.next());
  Saved read{};
  describe(printer, read);
  return printer.text();
}

// The first difference: "max_qp is 64 here and 128 in the saved state". Empty: they are the same.
template <typename Saved>
std::optional<std::string> differing(const Saved& here, const Saved& saved) {
  const std::string of_here = printed(here);
  const std::string of_saved = printed(saved);
  std::string_view left = of_here;
  std::string_view right = of_saved;
  const auto take_line = [](std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    return line;
  };
  while (!left.empty() && !right.empty()) {
    const std::string_view one = take_line(left);
    const std::string_view other = take_line(right);
    if (one == other) continue;
    const std::string_view field = one.substr(2);  // both begin with the same name
    const std::size_t name = field.find(' ');
    return std::string(field.substr(0, name)) + " is" + std::string(field.substr(name)) + " here and" +
           std::string(other.substr(2 + name)) + " in the saved state";
  }
  return std::nullopt;
}

}  // namespace pvrdma::device
