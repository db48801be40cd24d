// Bytes that nobody can guess, from the kernel's generator. Thread: any; blocks only early after the host's
// boot.
#pragma once

#include <cstddef>
#include <span>

namespace pvrdma {

// At most 256 bytes, which the kernel gives whole.
void fill_random(std::span<std::byte> bytes);

}  // namespace pvrdma
