// The list of system calls that a serving daemon may make. Thread: any.
#pragma once

#include <seccomp.h>

#include "base/result.h"
#include "pvrdmad/sandbox.h"

namespace pvrdma::daemon {

// Adds every allowed call to `filter`. The filter's default action applies to all others. Errors:
// libseccomp's.
Result<void> add_sandbox_rules(scmp_filter_ctx filter, const SandboxNeeds& needs);

}  // namespace pvrdma::daemon
