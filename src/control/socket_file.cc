#include "control/socket_file.h"

#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "base/check.h"
#include "base/fd.h"

namespace pvrdma::control {
namespace {

// Is somebody listening at `path`? 0: yes; otherwise connect's errno, ECONNREFUSED for a file left behind.
int probe(const std::string& path) {
  sockaddr_un address{};
  PVRDMA_CHECK(path.size() < sizeof(address.sun_path), "the rules of configuration bound the path's length");
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return 0;
  return errno == EAGAIN ? 0 : errno;  // EAGAIN: its backlog is full
}

}  // namespace

Result<void> SocketFile::make_room(const std::string& path) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return {};
  if (!S_ISSOCK(file.st_mode)) {
    return fail(EADDRINUSE,
                fmt::format("API socket {}: a file that is no socket is in the way: remove it or choose "
                            "another path",
                            path));
  }
  const int code = probe(path);
  if (code == 0) {
    return fail(
        EADDRINUSE,
        fmt::format("API socket {}: another running daemon uses it: stop that daemon or choose another path",
                    path));
  }
  if (code != ECONNREFUSED)
    return fail_errno(code, fmt::format("API socket {}: cannot find out who uses it", path));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail_errno(errno,
                      fmt::format("API socket {}: a dead daemon left it and it cannot be removed", path));
  }
  return {};
}

SocketFile::SocketFile(std::string path) : path_(std::move(path)), id_(file_id(path_)) {}

SocketFile::~SocketFile() {
  if (id_ && file_id(path_) == id_) ::unlink(path_.c_str());
}

std::optional<SocketFile::FileId> SocketFile::file_id(const std::string& path) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return std::nullopt;
  return FileId{file.st_dev, file.st_ino};
}

}  // namespace pvrdma::control
