#include "base/unix_client.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unix_listener.h"

namespace pvrdma {
namespace {

// 0 or an errno.
int check_is_socket(const Fd& file) {
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return errno;
  if (S_ISLNK(found.st_mode)) return ELOOP;
  return S_ISSOCK(found.st_mode) ? 0 : ENOTSOCK;
}

// In a folder with the sticky bit, only the owner of a file may replace it.
bool may_replace_files_of(const std::string& folder) {
  struct stat found {};
  return ::stat(folder.c_str(), &found) == 0 && (found.st_mode & S_ISVTX) == 0 &&
         ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

Result<Fd> connect_unix(std::string_view what, const std::string& path) {
  if (const auto fits = unix_address(what, path); !fits) return Failure(fits.error());
  const auto failed = [&](int code) { return fail_errno(code, fmt::format("{} {}", what, path)); };
  const Fd file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return failed(errno);
  if (const int code = check_is_socket(file); code != 0) return failed(code);
  // The file that was checked, whatever is at its path by now.
  const auto address = unix_address(what, fmt::format("/proc/self/fd/{}", file.get()));
  if (!address) return Failure(address.error());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed(errno);
  const auto try_connect = [&] {
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0
               ? 0
               : errno;
  };
  int code = try_connect();
  if (code == EACCES && may_replace_files_of(std::filesystem::path(path).parent_path()) &&
      ::fchownat(file.get(), "", ::geteuid(), ~gid_t{}, AT_EMPTY_PATH) == 0)
    code = try_connect();
  if (code != 0) return failed(code);
  return socket;
}

}  // namespace pvrdma
