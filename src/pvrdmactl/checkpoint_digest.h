// The checksum of a checkpoint's file: SHA-256 of each MiB that is not all zeros, with its number, and of the
// length. So unused memory, which a file has as holes, costs nothing, and a copy may have other holes.
//
// Thread: any; blocks.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace pvrdma::ctl {

using Digest = std::array<unsigned char, 32>;

// The digest of the first `bytes` bytes. `file` is the file's name, for errors. Errors: it cannot be read.
Result<Digest> digest_of(int fd, std::uint64_t bytes, const std::string& file);

}  // namespace pvrdma::ctl
