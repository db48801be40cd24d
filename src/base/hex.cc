#include "base/hex.h"

#include <charconv>
#include <cstddef>
#include <fmt/format.h>

namespace pvrdma {

std::string to_hex(std::span<const std::uint8_t> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

bool from_hex(std::string_view text, std::span<std::uint8_t> into) {
  if (text.size() != 2 * into.size()) return false;
  for (std::size_t i = 0; i < into.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(digits, digits + 2, into[i], 16);
    if (error != std::errc{} || end != digits + 2) return false;
  }
  return true;
}

}  // namespace pvrdma
