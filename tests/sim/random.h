// Random: the only source of chance in a simulated world, so the same seed gives the same world. Thread: a
// value.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace pvrdma::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // splitmix64.
  std::uint64_t next() {
    state_ += 0x9e37'79b9'7f4a'7c15;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11eb;
    return z ^ z >> 31;
  }
  // 0 … limit - 1; limit > 0.
  std::uint32_t below(std::uint32_t limit) {
    return static_cast<std::uint32_t>((next() >> 32) * limit >> 32);
  }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) { return low + below(high - low + 1); }
  bool chance(std::uint32_t per_mille) { return below(1000) < per_mille; }
  Duration up_to(Duration most) {
    return Duration(static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(most.count() + 1)));
  }

 private:
  std::uint64_t state_;
};

}  // namespace pvrdma::sim
