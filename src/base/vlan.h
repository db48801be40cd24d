// VLANs: the numbers that an 802.1Q tag can have, and 0 for none. Thread: values.
#pragma once

#include <cstdint>

namespace pvrdma {

inline constexpr std::uint16_t kVlanMax = 4094;

}  // namespace pvrdma
