// Hex: bytes as two lower-case hex digits each, as in records and messages. Thread: values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pvrdma {

std::string to_hex(std::span<const std::uint8_t> bytes);
// Accepts digits of either case. False: the text is not hex, or its length is not 2 * into.size(). The
// contents of `into` are then unspecified.
bool from_hex(std::string_view text, std::span<std::uint8_t> into);

}  // namespace pvrdma
