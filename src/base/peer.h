// The process at the other end of a UNIX socket, as the kernel knows it. Thread: any.
#pragma once

#include <optional>
#include <sys/socket.h>

namespace pvrdma {

// Who connected to, or for a client who listens at, the other end of `socket`. The process is 0 if it is in
// another PID namespace. nullopt: the kernel does not know, for instance because it is no UNIX socket.
inline std::optional<ucred> peer_of(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return std::nullopt;
  return peer;
}

}  // namespace pvrdma
