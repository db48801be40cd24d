// The names of hosts, switches, port groups, VMs and adapters. They become parts of file paths and of request
// paths, so one rule holds for all of them. Thread: values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pvrdma {

inline constexpr std::size_t kNameCharsMax = 64;

// The rule as text for error messages.
inline constexpr std::string_view kNameRule = "1 to 64 letters, digits, '.', '_' and '-'";

// Whether `text` is 1 to kNameCharsMax of [A-Za-z0-9._-], neither "." nor "..".
constexpr bool is_name(std::string_view text) {
  constexpr std::string_view kChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= kNameCharsMax && text != "." && text != ".." &&
         text.find_first_not_of(kChars) == std::string_view::npos;
}

// A unique name of 16 hex digits.
std::string random_name();

}  // namespace pvrdma
