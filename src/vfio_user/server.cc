#include "vfio_user/server.h"

#include <cerrno>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "vfio_user/address.h"

namespace pvrdma::vfio_user {
namespace {

constexpr int kBacklog = 4;  // one client; the others are only waiting to be refused
constexpr mode_t kSocketMode = 0600;

// A process out of file descriptors stays so for a while, and the waiting client keeps listen_fd() readable.
constexpr Duration kAcceptErrorLogInterval = std::chrono::seconds(10);
constexpr std::uint32_t kRefusalLogBurst = 5;
constexpr Duration kRefusalLogInterval = std::chrono::seconds(10);

std::string text_of(int code) {
  return std::generic_category().message(code);
}

int try_bind(const Fd& socket, const sockaddr_un& address) {
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

// Is somebody listening at `address`? 0: yes; otherwise connect's errno, ECONNREFUSED for a file left behind.
int probe(const sockaddr_un& address) {
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return 0;
  return errno == EAGAIN ? 0 : errno;  // EAGAIN: its backlog is full
}

// Makes room at a path that bind() found taken.
Result<void> remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return {};  // gone meanwhile
  if (!S_ISSOCK(file.st_mode)) {
    return fail(EADDRINUSE,
                fmt::format("vfio-user socket {}: a file that is no socket is in the way: remove it or "
                            "choose another path",
                            path));
  }
  switch (const int code = probe(address); code) {
    case 0:
      return fail(EADDRINUSE,
                  fmt::format("vfio-user socket {}: another running server uses it: stop that server or "
                              "choose another path",
                              path));
    case ECONNREFUSED:
      break;
    default:
      return fail(
          code,
          fmt::format("vfio-user socket {}: cannot find out who uses it ({}): remove it or choose another "
                      "path",
                      path, text_of(code)));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    const int code = errno;
    return fail(
        code,
        fmt::format("vfio-user socket {}: a dead server left it and it cannot be removed ({}): remove it "
                    "or choose another path",
                    path, text_of(code)));
  }
  log::info("vfio-user {}: removed the socket file that a dead server left", path);
  return {};
}

Failure bind_failure(int code, const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return fail(
          code, fmt::format("vfio-user socket {}: there is no directory {}: create it or choose another path",
                            path, directory));
    case EACCES:
    case EPERM:
    case EROFS:
      return fail(
          code,
          fmt::format("vfio-user socket {}: this user cannot write to directory {}: change its owner or "
                      "mode or choose another path",
                      path, directory));
    default:
      return fail(code, fmt::format("vfio-user socket {}: cannot be bound: {}", path, text_of(code)));
  }
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(std::string path, Handler& handler) {
  const auto address = socket_address(path);
  if (!address) return Failure(address.error());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno(errno, "vfio-user socket " + path);
  // bind() takes the file's mode from the socket's, so that there is no moment at which others can connect.
  if (::fchmod(socket.get(), kSocketMode) != 0) return fail_errno(errno, "vfio-user socket " + path);

  int code = try_bind(socket, *address);
  if (code == EADDRINUSE) {
    if (auto removed = remove_stale(path, *address); !removed) return Failure(std::move(removed).error());
    code = try_bind(socket, *address);
  }
  if (code != 0) return bind_failure(code, path);
  // From here on the destructor removes the file.
  std::unique_ptr<Server> server(new Server(std::move(path), std::move(socket), handler));
  if (::listen(server->listen_fd(), kBacklog) != 0)
    return fail_errno(errno, "vfio-user socket " + server->path_);
  return server;
}

Server::Server(std::string path, Fd listen_fd, Handler& handler)
    : path_(std::move(path)),
      listen_fd_(std::move(listen_fd)),
      file_(file_id(path_)),
      handler_(handler),
      accept_errors_(1, kAcceptErrorLogInterval),
      refusal_log_(kRefusalLogBurst, kRefusalLogInterval) {}

Server::~Server() {
  if (session_) end_session("the server stops");
  // The open socket keeps its inode from being used again, so equal ids mean the same file.
  if (file_ && file_id(path_) == file_) ::unlink(path_.c_str());
}

std::optional<Server::FileId> Server::file_id(const std::string& path) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return std::nullopt;
  return FileId{file.st_dev, file.st_ino};
}

void Server::on_listen_ready() {
  Fd client(::accept4(listen_fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client) {
    const bool nobody_there = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (!nobody_there && accept_errors_.allow(Instant::now())) {
      log::error("vfio-user {}: cannot accept a client: {}", path_, text_of(errno));
    }
    return;
  }
  // The end of the last client may still wait in its socket: a VM that is killed and started again connects
  // that fast.
  on_session_ready(true, true);
  if (session_) {
    log::warn("vfio-user {}: refused a second client: one at a time", path_);
    return;
  }
  if (!refusal_.empty()) {
    if (refusal_log_.allow(Instant::now())) log::warn("vfio-user {}: refused a client: {}", path_, refusal_);
    return;
  }
  session_.emplace(std::move(client), handler_, path_);
}

bool Server::on_session_ready(bool readable, bool writable) {
  if (!session_ || !(session_->wants_write() ? writable : readable)) return false;
  auto worked = session_->run();
  if (worked) return *worked;
  const Error& error = worked.error();
  if (error.code == 0) {
    log::info("vfio-user {}: client left: {}", path_, error.message);
  } else {
    log::warn("vfio-user {}: ended the client's session: {}", path_, error.message);
  }
  end_session(error.message);
  return true;
}

void Server::end_session(std::string_view reason) {
  if (session_->established()) handler_.disconnected(reason);
  session_.reset();
}

}  // namespace pvrdma::vfio_user
