// Starts programs that outlive this one and are not its children, and talks to those that listen on sockets.
//
// The command that pvrdma-run becomes must not find children that it did not start. Thread: main().
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::run {

// Starts `command` in a session of its own, with its output in the file `log`, and without our environment's
// preloaded libraries. Waits until `is_ready` says so. Errors: the program cannot be started, it ended (with
// the last line of its log), or it is not ready after ten seconds.
Result<void> start_in_background(const std::vector<std::string>& command, const std::string& log,
                                 const std::function<bool()>& is_ready);

// Connects to a socket of `type` (SOCK_STREAM, SOCK_SEQPACKET). Nullopt: nobody listens.
std::optional<Fd> connect_to(const std::string& socket, int type);
// The process that listens on the socket. Nullopt: there is none.
std::optional<pid_t> listener_of(const std::string& socket, int type);
// Sends SIGTERM and waits until the process has ended, ten seconds at most. Errors: it has not ended.
Result<void> end_process(pid_t pid);

}  // namespace pvrdma::run
