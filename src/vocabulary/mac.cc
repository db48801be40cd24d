#include "vocabulary/mac.h"

#include <charconv>
#include <fmt/format.h>

namespace pvrdma {

std::optional<Mac> Mac::parse(std::string_view text) {
  Mac mac;
  if (text.size() != 3 * mac.raw.size() - 1) return std::nullopt;
  for (std::size_t i = 0; i < mac.raw.size(); ++i) {
    const char* digits = text.data() + 3 * i;
    const auto [end, error] = std::from_chars(digits, digits + 2, mac.raw[i], 16);
    if (error != std::errc{} || end != digits + 2) return std::nullopt;
    if (i + 1 < mac.raw.size() && digits[2] != ':') return std::nullopt;
  }
  return mac;
}

std::string Mac::to_string() const {
  return fmt::format("{:02x}", fmt::join(raw, ":"));
}

}  // namespace pvrdma
