#include "base/unix_listener.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/core.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/log.h"

namespace pvrdma {
namespace {

std::string text_of(int code) {
  return std::generic_category().message(code);
}

int try_bind(const Fd& socket, const sockaddr_un& address) {
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

// As probe_listener(), for a socket file that was given to another user: this process may not connect to it,
// but it may take the file back.
int probe_given(const sockaddr_un& address, const struct stat& file) {
  const int code = probe_listener(address);
  if (code != EACCES || ::lchown(address.sun_path, ::geteuid(), ~gid_t{}) != 0) return code;
  const int answer = probe_listener(address);
  if (answer == 0) static_cast<void>(::lchown(address.sun_path, file.st_uid, ~gid_t{}));
  return answer;
}

// Must run before a client can connect.
Result<> give_to(const SocketOwner& owner, mode_t mode, const std::string& name, const std::string& path) {
  if (!owner.is_given()) return {};
  const uid_t user = owner.user.value_or(~uid_t{});
  const gid_t group = owner.group.value_or(~gid_t{});
  if (::chmod(path.c_str(), mode) == 0 && ::lchown(path.c_str(), user, group) == 0) return {};
  const int code = errno;
  return fail(code, fmt::format("{}: cannot be given to {}{}{} ({}): give the daemon CAP_CHOWN, as its "
                                "systemd unit does, or leave out owner and group",
                                name, owner.user ? fmt::format("user {}", user) : std::string(),
                                owner.user && owner.group ? " and " : "",
                                owner.group ? fmt::format("group {}", group) : std::string(), text_of(code)));
}

// As give_to(), for a file that an earlier process may have given to another user.
Result<> give_anew(const UnixListener::Options& options, const std::string& name, const std::string& path) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return {};  // gone meanwhile
  const mode_t mode = file.st_mode & 07777;
  const SocketOwner wanted{.user = options.owner.user.value_or(::geteuid()), .group = options.owner.group};
  const bool is_theirs = file.st_uid == wanted.user && (!wanted.group || file.st_gid == *wanted.group);
  const bool is_open_as_wanted =
      options.owner.is_given() ? mode == options.mode : (mode & ~options.mode) == 0;
  if (is_theirs && is_open_as_wanted) return {};
  // Only the owner may change the mode. If this fails, give_to() fails too and reports it.
  if (file.st_uid != ::geteuid()) static_cast<void>(::lchown(path.c_str(), ::geteuid(), ~gid_t{}));
  return give_to(wanted, options.mode, name, path);
}

// Removes the socket file of a dead server, after bind() has found the path in use. `name`: the socket's name
// and path.
Result<> remove_stale(const std::string& name, const std::string& path, const sockaddr_un& address) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return {};  // gone meanwhile
  if (!S_ISSOCK(file.st_mode)) {
    return fail(
        EADDRINUSE,
        fmt::format("{}: a file that is not a socket is in the way: remove it or choose another path", name));
  }
  switch (const int code = probe_given(address, file); code) {
    case 0:
      return fail(
          EADDRINUSE,
          fmt::format("{}: another running server uses it: stop that server or choose another path", name));
    case ECONNREFUSED:
      break;
    default:
      return fail(code, fmt::format("{}: cannot find out who uses it ({}): remove it or choose another path",
                                    name, text_of(code)));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    const int code = errno;
    return fail(code, fmt::format("{}: a dead server left it and it cannot be removed ({}): remove it or "
                                  "choose another path",
                                  name, text_of(code)));
  }
  log::info("{}: removed the file that a dead server left", name);
  return {};
}

// Whether `socket` listens at `address`. No other server can bind the path while the socket's file exists.
bool listens_at(const Fd& socket, const sockaddr_un& address) {
  sockaddr_un bound{};
  socklen_t size = sizeof(bound);
  int listens = 0;
  socklen_t listens_size = sizeof(listens);
  struct stat file {};
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) == 0 &&
         ::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) == 0 &&
         listens != 0 && std::string_view(bound.sun_path) == std::string_view(address.sun_path) &&
         ::lstat(address.sun_path, &file) == 0 && S_ISSOCK(file.st_mode);
}

Failure bind_failure(int code, const std::string& name, const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return fail(code, fmt::format("{}: there is no directory {}: create it or choose another path", name,
                                    directory));
    case EACCES:
    case EPERM:
    case EROFS:
      return fail(code, fmt::format("{}: this user cannot write to directory {}: change its owner or mode or "
                                    "choose another path",
                                    name, directory));
    default:
      return fail(code, fmt::format("{}: cannot be bound: {}", name, text_of(code)));
  }
}

bool remove_if_dead(const std::string& path) {
  const auto address = unix_address("socket", path);
  struct stat file {};
  if (!address || ::lstat(path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) return false;
  if (probe_given(*address, file) != ECONNREFUSED || ::unlink(path.c_str()) != 0) return false;
  log::info("socket {}: removed the file that a dead server left", path);
  return true;
}

}  // namespace

int probe_listener(const sockaddr_un& address) {
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return 0;
  // EAGAIN: its backlog is full. EPROTOTYPE: its sockets are of another type.
  return errno == EAGAIN || errno == EPROTOTYPE ? 0 : errno;
}

Result<sockaddr_un> unix_address(std::string_view what, const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return fail(ErrorKind::kInvalid, EINVAL,
                fmt::format("{}: the path is empty or contains a NUL: give it a file name", what));
  if (path.size() > kUnixPathBytesMax) {
    return fail(ENAMETOOLONG,
                fmt::format("{} {}: the path has {} bytes and a UNIX socket's has at most {}: choose a "
                            "shorter one",
                            what, path, path.size(), kUnixPathBytesMax));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::string remove_file_of(const Fd& listener) {
  sockaddr_un bound{};
  socklen_t size = sizeof(bound);
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) return {};
  const bool removed =
      bound.sun_family == AF_UNIX && listens_at(listener, bound) && ::unlink(bound.sun_path) == 0;
  return removed ? bound.sun_path : "";
}

std::vector<std::string> remove_dead_sockets(const std::string& folder, std::string_view suffix,
                                             const std::function<bool(const std::string&)>& is_used) {
  std::error_code error;
  std::vector<std::string> found;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string path = at->path().string();
    if (path.ends_with(suffix) && !is_used(path)) found.push_back(std::move(path));
  }
  std::erase_if(found, [](const std::string& path) { return !remove_if_dead(path); });
  return found;
}

Result<std::unique_ptr<UnixListener>> UnixListener::listen(std::string path, const Options& options,
                                                           Fd earlier) {
  const auto address = unix_address(options.what, path);
  if (!address) return Failure(address.error());
  const std::string name = fmt::format("{} {}", options.what, path);
  if (earlier && listens_at(earlier, *address)) {
    if (auto given = give_anew(options, name, path); !given) return Failure(std::move(given).error());
    return std::unique_ptr<UnixListener>(new UnixListener(std::move(path), std::move(earlier)));
  }
  earlier.reset();
  Fd socket(::socket(AF_UNIX, options.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno(errno, name);
  // bind() takes the file's mode from the socket's.
  if (::fchmod(socket.get(), options.mode) != 0) return fail_errno(errno, name);

  int code = try_bind(socket, *address);
  if (code == EADDRINUSE) {
    if (auto removed = remove_stale(name, path, *address); !removed)
      return Failure(std::move(removed).error());
    code = try_bind(socket, *address);
  }
  if (code != 0) return bind_failure(code, name, path);
  // From here on the destructor removes the file.
  std::unique_ptr<UnixListener> listener(new UnixListener(std::move(path), std::move(socket)));
  if (auto given = give_to(options.owner, options.mode, name, listener->path()); !given)
    return Failure(std::move(given).error());
  if (::listen(listener->fd(), options.backlog) != 0) return fail_errno(errno, name);
  return listener;
}

UnixListener::UnixListener(std::string path, Fd bound)
    : path_(std::move(path)), fd_(std::move(bound)), file_(file_id(path_)) {}

UnixListener::~UnixListener() {
  // The open socket keeps its inode from being used again, so equal ids mean the same file.
  if (file_ && file_id(path_) == file_) ::unlink(path_.c_str());
}

std::optional<UnixListener::FileId> UnixListener::file_id(const std::string& path) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return std::nullopt;
  return FileId{file.st_dev, file.st_ino};
}

}  // namespace pvrdma
