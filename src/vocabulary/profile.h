// Profile: which limits an adapter has. Thread: values.
#pragma once

#include <array>
#include <cstdint>

#include "base/words.h"
#include "vocabulary/hardware_version.h"

namespace pvrdma {

// kOpen: all that the guest driver's ABI allows. kEsxi: the limits VMware documents for ESXi, exactly (no
// atomics, 3 UD QPs).
enum class Profile : std::uint8_t { kOpen, kEsxi };

template <>
inline constexpr std::array kWords<Profile>{Word{"open", Profile::kOpen}, Word{"esxi", Profile::kEsxi}};

// Whether the adapter may speak to native endpoints. Technically any hardware version can; VMware's needs
// kFirstWithNatives.
constexpr bool offers_natives(HardwareVersion version, Profile profile) {
  return profile == Profile::kOpen || version >= kFirstWithNatives;
}

}  // namespace pvrdma
