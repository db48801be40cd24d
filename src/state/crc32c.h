// CRC-32C (Castagnoli), as in RFC 3720, B.4: the checksum of a record of saved state. `bytes` is at most as
// long as the longest record. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pvrdma::state {

std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace pvrdma::state
