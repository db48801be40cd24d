// Bytes as a file in memory that never changes again, and back: what a process leaves to the next one.
// Thread: any.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::keep {

// Sealed against every change. Errors: what the system calls said.
Result<Fd> to_memory_file(std::span<const std::byte> bytes);
// Errors: EINVAL, no such file; E2BIG, larger than `most`; what the system calls said.
Result<std::vector<std::byte>> from_memory_file(const Fd& file, std::size_t most);

}  // namespace pvrdma::keep
