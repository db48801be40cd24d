// Tells the service manager the daemon's state (sd_notify(3)). Does nothing if no service manager started the
// daemon. Thread: control only.
#pragma once

#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::keep {

// A socket connected to NOTIFY_SOCKET; empty if the variable is not set. Errors, each one sentence: its
// address is invalid, or the socket cannot be opened.
Result<Fd> connect_to_manager();

// Sends "READY=1", "STOPPING=1" or the like. Failures are ignored.
void notify(std::string_view state);

}  // namespace pvrdma::keep
