#include "vocabulary/name.h"

#include <fmt/core.h>
#include <random>

namespace pvrdma {

std::string random_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace pvrdma
