// Text from guests, VMMs and peers, made safe for a terminal and for a log that is read line by line.
//
// Thread: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pvrdma {

enum class Newlines : std::uint8_t { kEscaped, kKept };  // tabs, too

// Replaces each character that could control a terminal, end a line or change the order of the text around it
// by an escape: "\u001b", "\u202e". These are control characters, separators of lines, and characters that
// are invisible or set a direction. Each byte that is not UTF-8 becomes "\xff". Everything else stays.
std::string clean_text(std::string_view text, Newlines newlines = Newlines::kEscaped);

}  // namespace pvrdma
