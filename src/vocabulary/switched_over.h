// SwitchedOver: the cost of giving a guest's adapter to another VMM. Thread: values.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace pvrdma {

struct SwitchedOver {
  std::uint64_t state_bytes = 0;  // the adapter's saved state
  Duration took{};
};

}  // namespace pvrdma
