// Times as InfiniBand's messages have them: 4.096 us * 2^n, n of 5 bits (IBTA vol. 1, 9.7.6.1.3). Thread:
// pure functions.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace pvrdma {

constexpr Duration ib_time(std::uint8_t exponent) {
  return Duration(std::int64_t{4096} << (exponent & 31));
}

}  // namespace pvrdma
