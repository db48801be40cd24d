// notify(): tells the service manager how far the daemon is (sd_notify's protocol). Thread: any thread.
#pragma once

#include <string_view>

namespace pvrdma::daemon {

// Sends `state` ("READY=1", "STOPPING=1") to the socket that $NOTIFY_SOCKET names; without one, nothing. A
// service manager that does not listen is none of the daemon's business, so there is no error.
void notify(std::string_view state);

}  // namespace pvrdma::daemon
