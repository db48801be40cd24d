// What the daemon tells the service manager that started it (sd_notify(3)): nothing, where none did. Thread:
// control only.
#pragma once

#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::keep {

// Connected to NOTIFY_SOCKET; empty: there is none. Errors, one sentence: its address makes no sense, or the
// socket is not to be had.
Result<Fd> connect_to_manager();

// "READY=1", "STOPPING=1". It does not matter whether anybody hears it.
void notify(std::string_view state);

}  // namespace pvrdma::keep
