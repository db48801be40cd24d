// The list of system calls that a serving daemon may make. Thread: any thread.
#pragma once

#include <seccomp.h>

#include "base/result.h"
#include "pvrdmad/sandbox.h"

namespace pvrdma::daemon {

// Adds every allowed call to `filter`, whose default is what becomes of all others. Error: libseccomp's.
Result<void> add_sandbox_rules(scmp_filter_ctx filter, const SandboxNeeds& needs);

}  // namespace pvrdma::daemon
