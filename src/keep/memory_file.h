// Turns bytes into a file in memory that never changes again, and back. A process leaves such files to its
// successor. Thread: any.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::keep {

// The file is sealed against every change. Errors: those of the system calls.
Result<Fd> to_memory_file(std::span<const std::byte> bytes);
// Errors: EINVAL (not such a file), E2BIG (larger than `most`), those of the system calls.
Result<std::vector<std::byte>> from_memory_file(const Fd& file, std::size_t most);

}  // namespace pvrdma::keep
