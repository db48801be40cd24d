// FindMonitor: where the QEMU of an adapter's VM, or the one that waits for the VM, has its monitor. Errors:
// ENOENT: there is no such adapter.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace pvrdma::moves {

using FindMonitor = std::function<Result<std::string>(const std::string& adapter)>;

}  // namespace pvrdma::moves
