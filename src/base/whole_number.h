// whole_number(): a decimal number that is a whole text. Thread: any.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace pvrdma {

// nullopt: the text is empty, has anything but digits (and, for a signed Number, a minus before them), or the
// number does not fit.
template <std::integral Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

}  // namespace pvrdma
