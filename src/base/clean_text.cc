#include "base/clean_text.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

namespace pvrdma {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Of Unicode's categories Cc, Cf, Zl and Zp, those that a terminal acts on or does not show, and the
// non-characters at the end of the basic plane.
constexpr Range kUnsafe[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},
    {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
    {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe007f},
};

bool is_unsafe(char32_t point) {
  return std::ranges::any_of(kUnsafe,
                             [point](Range range) { return range.first <= point && point <= range.last; });
}

struct Character {
  char32_t point = 0;
  std::size_t bytes = 0;  // 0: the text does not begin with UTF-8
};

// The smallest code point of each length: a longer form of a smaller one is not UTF-8.
constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};

Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >> 5 == 0b110 ? 2 : lead >> 4 == 0b1110 ? 3 : lead >> 3 == 0b11110 ? 4 : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  char32_t point = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >> 6 != 0b10) return {};
    point = point << 6 | (byte & 0x3fu);
  }
  const bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
  if (point < kSmallest[bytes] || is_surrogate || point > 0x10ffff) return {};
  return {point, bytes};
}

}  // namespace

std::string clean_text(std::string_view text, Newlines newlines) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::size_t bytes = std::max<std::size_t>(character.bytes, 1);
    if (character.bytes == 0) {
      clean += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (is_unsafe(character.point) &&
               !(newlines == Newlines::kKept && (character.point == '\n' || character.point == '\t'))) {
      const auto number = static_cast<std::uint32_t>(character.point);
      clean += number > 0xffff ? fmt::format("\\U{:08x}", number) : fmt::format("\\u{:04x}", number);
    } else {
      clean.append(text.substr(0, bytes));
    }
    text.remove_prefix(bytes);
  }
  return clean;
}

}  // namespace pvrdma
