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

// Warnings, each one sentence, or the first error with which the start would end. Folders of sockets and of
// the store are left out: systemd makes them just before the start.
Result<std::vector<std::string>> check_start(const control::Config& config);

}  // namespace pvrdma::daemon
