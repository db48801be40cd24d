// Names: of hosts, switches, port groups, VMs and adapters. They become parts of paths, of files and of
// requests, so there is one rule for all of them. Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pvrdma {

inline constexpr std::size_t kNameCharsMax = 64;

// The rule as text for error messages.
inline constexpr std::string_view kNameRule = "1 to 64 letters, digits, '.', '_' and '-'";

// Of [A-Za-z0-9._-], 1 to kNameCharsMax characters, neither "." nor "..".
constexpr bool is_name(std::string_view text) {
  constexpr std::string_view kChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= kNameCharsMax && text != "." && text != ".." &&
         text.find_first_not_of(kChars) == std::string_view::npos;
}

// A unique name of 16 hex digits.
std::string random_name();

}  // namespace pvrdma
