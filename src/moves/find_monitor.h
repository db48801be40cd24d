// FindMonitor: returns the monitor's path for the QEMU of an adapter's VM, or for the QEMU that waits for
// this VM. Errors: kNotFound: there is no such adapter.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace pvrdma::moves {

using FindMonitor = std::function<Result<std::string>(const std::string& adapter)>;

}  // namespace pvrdma::moves
