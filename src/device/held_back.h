// The tail of a rate-limited log line. Thread: as the limiter.
#pragma once

#include <string>

#include "base/log.h"

namespace pvrdma::device {

// "", or " (and N more like it before)".
inline std::string held_back(const log::LogLimiter& limiter) {
  if (limiter.suppressed() == 0) return {};
  return fmt::format(" (and {} more like it before)", limiter.suppressed());
}

}  // namespace pvrdma::device
