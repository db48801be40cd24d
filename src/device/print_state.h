// A saved adapter as text, for people. Thread: any; needs no adapter and no guest.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace pvrdma::device {

// A line for each field, the engine's included, up to what is wrong with the stream, which the last line
// says.
std::string print_state(std::span<const std::byte> stream);

}  // namespace pvrdma::device
