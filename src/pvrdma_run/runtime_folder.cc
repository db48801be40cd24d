#include "pvrdma_run/runtime_folder.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pvrdma::run {

Result<std::string> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, fmt::format("making the folder {}", path));
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return fail_errno(errno, fmt::format("looking at {}", path));
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return fail(
        fmt::format("{} is not a folder of this user alone: remove it, or set XDG_RUNTIME_DIR", path));
  }
  return path;
}

Result<std::string> runtime_folder() {
  const char* const parent = std::getenv("XDG_RUNTIME_DIR");
  struct stat status {};
  // With sudo -E the variable of root's process names another user's folder.
  if (parent != nullptr && parent[0] == '/' && ::stat(parent, &status) == 0 && status.st_uid == ::geteuid() &&
      ::access(parent, W_OK) == 0)
    return make_folder(std::string(parent) + "/pvrdma");
  return make_folder(fmt::format("/tmp/pvrdma-{}", ::geteuid()));
}

Result<Fd> lock_folder(const std::string& folder) {
  const std::string path = folder + "/lock";
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return fail_errno(errno, fmt::format("opening {}", path));
  while (::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return fail_errno(errno, fmt::format("locking {}", path));
  }
  return file;
}

}  // namespace pvrdma::run
