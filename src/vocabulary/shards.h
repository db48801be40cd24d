// How many shards a host may have. Thread: constants.
#pragma once

#include <cstdint>

namespace pvrdma {

inline constexpr std::uint32_t kShardsMax = 16;
inline constexpr std::uint32_t kShardsWithWardMax = kShardsMax + 1;

}  // namespace pvrdma
