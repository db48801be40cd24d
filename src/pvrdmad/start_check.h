// What a start needs of the host besides a valid configuration, for --check: files that the daemon reads at
// its start, and what the kernel permits. Touches no socket and changes nothing.
//
// Thread: any; blocks (reads files).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "control/config/config.h"

namespace pvrdma::daemon {

// Warnings, each one sentence, or the first error with which the start would end. A folder of sockets or of
// the store that does not exist gives a warning only, because systemd may make it just before the start. It
// says nothing of the two that pvrdmad.service makes.
Result<std::vector<std::string>> check_start(const control::Config& config);

}  // namespace pvrdma::daemon
