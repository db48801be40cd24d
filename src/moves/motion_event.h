// What the events about VMs that move, are written to a file or change their QEMU are about. Thread: values.
#pragma once

#include <string_view>

#include "base/events.h"

namespace pvrdma::moves {

inline events::Subject motion_of(std::string_view vm) {
  return {events::Type::kMotion, events::Kind::kVm, vm};
}

}  // namespace pvrdma::moves
