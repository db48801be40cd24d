// socket_address(): a path as the address of a UNIX socket, for server and client. Thread: any thread.
#pragma once

#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <string>
#include <sys/un.h>

#include "base/result.h"

namespace pvrdma::vfio_user {

// The longest path a UNIX socket's address has room for, without the NUL.
inline constexpr std::size_t kMaxSocketPathBytes = sizeof(sockaddr_un::sun_path) - 1;

// Errors: ENAMETOOLONG; EINVAL for an empty path or one with a NUL inside (which Linux would take for
// something else).
inline Result<sockaddr_un> socket_address(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return fail(EINVAL, "vfio-user socket: the path is empty or contains a NUL: give it a file name");
  }
  if (path.size() > kMaxSocketPathBytes) {
    return fail(ENAMETOOLONG,
                fmt::format("vfio-user socket {}: the path has {} bytes and a UNIX socket's has at most {}: "
                            "choose a shorter one",
                            path, path.size(), kMaxSocketPathBytes));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace pvrdma::vfio_user
