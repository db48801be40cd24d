#include "keep/notify.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace pvrdma::keep {

Result<Fd> connect_to_manager() {
  const char* variable = std::getenv("NOTIFY_SOCKET");
  if (variable == nullptr) return Fd();
  const std::string_view path(variable);
  sockaddr_un address{};
  if (path.size() < 2 || path.size() >= sizeof(address.sun_path))
    return fail(EINVAL, fmt::format("NOTIFY_SOCKET={}: it must be the path of a socket", path));
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';  // a name in the abstract namespace
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return fail_errno(errno, fmt::format("connecting to NOTIFY_SOCKET={}", path));
  return socket;
}

void notify(std::string_view state) {
  const auto socket = connect_to_manager();
  if (!socket || !*socket) return;
  [[maybe_unused]] const auto sent = ::send(socket->get(), state.data(), state.size(), MSG_NOSIGNAL);
}

}  // namespace pvrdma::keep
