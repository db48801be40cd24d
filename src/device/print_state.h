// A saved adapter as text for people. Thread: any; needs no adapter and no guest.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace pvrdma::device {

// Prints one line for each field, including the engine's. If the stream is invalid, the last line says what
// is wrong.
std::string print_state(std::span<const std::byte> stream);

}  // namespace pvrdma::device
