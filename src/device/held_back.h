// The tail of a rate-limited log line, see base/log.h. Thread: as the limiter.
#pragma once

#include "base/log.h"

namespace pvrdma::device {

using log::held_back;

}  // namespace pvrdma::device
