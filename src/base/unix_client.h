// Connects to UNIX sockets that other, untrusted users have made.
//
// Such a user may put anything at the socket's path, and this process may open more files than that user. So
// the path's last component must itself be a socket: a symbolic link is not followed. The folders before it
// are trusted.
//
// A socket's mode follows the umask of the process that made it, which often forbids this process to connect.
// Default ACLs do not help: Linux applies the umask to sockets all the same. If this process may replace the
// files of the socket's folder, it therefore makes itself the owner of the file. That needs CAP_CHOWN.
//
// Thread: any. Does not block.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma {

// A connected stream socket, non-blocking. `what` names the socket in errors. Errors: those of
// unix_address(); ELOOP: a symbolic link; ENOTSOCK: another file; EAGAIN: its backlog is full; otherwise the
// errno of open(2) or connect(2), such as ENOENT, ECONNREFUSED, EACCES.
Result<Fd> connect_unix(std::string_view what, const std::string& path);

}  // namespace pvrdma
