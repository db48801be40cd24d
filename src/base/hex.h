// Hex: bytes as two small digits each, as records and messages hold them. Thread: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pvrdma {

std::string to_hex(std::span<const std::uint8_t> bytes);
// False: the text is not hex or has another length. The contents of `into` are then unspecified.
bool from_hex(std::string_view text, std::span<std::uint8_t> into);

}  // namespace pvrdma
