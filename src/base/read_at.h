// read_at(): a part of a file, whole. Thread: any; blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace pvrdma {

// Fills `bytes` with those of the file from `offset` on. `file` is the file's name, for errors. Error: EIO if
// the file is shorter.
Result<void> read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset, const std::string& file);

}  // namespace pvrdma
