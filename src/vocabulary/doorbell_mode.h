// DoorbellMode: how the doorbells of a guest's processes reach the daemon. Thread: values.
#pragma once

#include <array>
#include <cstdint>

#include "base/words.h"

namespace pvrdma {

// kTrapped: each write is a message of the VMM, and the vCPU waits until it is handled. kMapped: the
// processes' doorbell pages are memory that the guest writes and the daemon polls. The guest kernel's page
// stays trapped.
enum class DoorbellMode : std::uint8_t { kTrapped, kMapped };

template <>
inline constexpr std::array kWords<DoorbellMode>{Word{"trapped", DoorbellMode::kTrapped},
                                                 Word{"mapped", DoorbellMode::kMapped}};

// Mapped doorbells rely on x86's order of stores: when a doorbell is visible, the ring index that the guest
// wrote before it is visible, too.
#if defined(__x86_64__)
inline constexpr bool kHostIsX86 = true;
#else
inline constexpr bool kHostIsX86 = false;
#endif

// Of an adapter whose configuration does not name a mode.
inline constexpr DoorbellMode kDoorbellModeDefault =
    kHostIsX86 ? DoorbellMode::kMapped : DoorbellMode::kTrapped;

}  // namespace pvrdma
