// Profile: whose limits an adapter has. Thread: values.
#pragma once

#include <array>
#include <cstdint>

#include "base/words.h"

namespace pvrdma {

// kOpen: all that the guest driver's ABI allows. kEsxi: the limits VMware documents for ESXi, exactly (no
// atomics, 3 UD QPs).
enum class Profile : std::uint8_t { kOpen, kEsxi };

template <>
inline constexpr std::array kWords<Profile>{Word{"open", Profile::kOpen}, Word{"esxi", Profile::kEsxi}};

}  // namespace pvrdma
