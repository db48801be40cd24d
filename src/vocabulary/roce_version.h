// RoceVersion: the two encapsulations of RDMA over Ethernet; an adapter speaks exactly one. Thread: values.
#pragma once

#include <array>
#include <cstdint>

#include "base/words.h"

namespace pvrdma {

enum class RoceVersion : std::uint8_t { kV1 = 1, kV2 = 2 };

template <>
inline constexpr std::array kWords<RoceVersion>{Word{"v1", RoceVersion::kV1}, Word{"v2", RoceVersion::kV2}};

}  // namespace pvrdma
