#include "vmm/vmm_folder.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/fd.h"
#include "base/log.h"
#include "vmm/vm_monitors.h"

namespace pvrdma::vmm {
namespace {

constexpr mode_t kOwnMode = 0700;
constexpr mode_t kGivenMode = 0770;

std::string text_of(int code) {
  return std::generic_category().message(code);
}

Fd open_folder(const std::string& path) {
  return Fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool change_owner(const Fd& folder, uid_t user, gid_t group) {
  struct stat found {};
  if (::fstat(folder.get(), &found) != 0) return false;
  if (found.st_uid == user && found.st_gid == group) return true;
  return ::fchownat(folder.get(), "", user, group, AT_EMPTY_PATH) == 0;
}

// Calls nothing that is not needed: the sandbox of a daemon without owners of sockets forbids chmod().
// fchmod() takes no descriptor that was opened with O_PATH.
bool change_mode(const Fd& folder, mode_t mode) {
  struct stat found {};
  if (::fstat(folder.get(), &found) != 0) return false;
  if ((found.st_mode & 07777) == mode) return true;
  std::array<char, 32> path{};  // a destructor calls this, so it takes no memory
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/self/fd/{}", folder.get());
  return ::chmod(path.data(), mode) == 0;
}

// Only the owner may change the mode.
bool take(const Fd& folder, mode_t mode) {
  return change_owner(folder, ::geteuid(), ::getegid()) && change_mode(folder, mode);
}

// The daemon enters by the group if the folder is a user's, and as its owner if it is a group's.
bool give(const Fd& folder, const SocketOwner& owner) {
  if (!take(folder, owner.is_given() ? kGivenMode : kOwnMode)) return false;
  return owner.user ? change_owner(folder, *owner.user, ::getegid())
                    : change_owner(folder, ::geteuid(), owner.group.value_or(::getegid()));
}

// 0 or an errno. A folder that cannot be removed keeps its owner and mode.
int remove_folder(const std::string& path) {
  const Fd folder = open_folder(path);
  struct stat found {};
  if (!folder || ::fstat(folder.get(), &found) != 0) return errno;
  if (take(folder, kOwnMode)) {
    for (const char* name : kSocketNames) ::unlinkat(folder.get(), name, 0);
  }
  if (::unlinkat(AT_FDCWD, path.c_str(), AT_REMOVEDIR) == 0) return 0;
  const int code = errno;
  static_cast<void>(change_mode(folder, found.st_mode & 07777));
  static_cast<void>(change_owner(folder, found.st_uid, found.st_gid));
  return code;
}

// Makes the folder unless there is one that `user` owns. 0 or an errno.
int make_folder(const std::string& path, uid_t user) {
  if (::mkdir(path.c_str(), kOwnMode) == 0) return 0;
  if (errno != EEXIST) return errno;
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return errno;
  if (!S_ISDIR(found.st_mode)) return EEXIST;
  if (found.st_uid == user) return 0;
  if (const int code = remove_folder(path); code != 0) return code;
  return ::mkdir(path.c_str(), kOwnMode) == 0 ? 0 : errno;
}

}  // namespace

void remove_empty_folder_beside(const std::string& socket) {
  ::rmdir(monitors_beside(socket).folder.c_str());
}

Result<std::unique_ptr<VmmFolder>> VmmFolder::make(std::string path, const SocketOwner& owner) {
  const std::string name = fmt::format("the folder {} of the VM's QEMU", path);
  switch (const int code = make_folder(path, owner.user.value_or(::geteuid())); code) {
    case 0:
      break;
    case EEXIST:
    case ENOTEMPTY:
      return fail(code, fmt::format("{} cannot be made: something that is not this VM's is in the way ({}): "
                                    "remove it",
                                    name, text_of(code)));
    case ENOENT:
      return fail(code,
                  fmt::format("{} cannot be made: there is no directory {}: create it or choose another path",
                              name, std::filesystem::path(path).parent_path().string()));
    default:
      return fail_errno(code, fmt::format("{} cannot be made", name));
  }
  std::unique_ptr<VmmFolder> made(new VmmFolder(std::move(path)));
  if (give(open_folder(made->path_), owner)) return made;
  const int code = errno;
  return fail(code,
              fmt::format("{} cannot be given to the VM's user or group ({}): give the daemon CAP_CHOWN, "
                          "as its systemd unit does, or leave out owner and group",
                          name, text_of(code)));
}

std::unique_ptr<VmmFolder> VmmFolder::take_over(std::string path) {
  return std::unique_ptr<VmmFolder>(new VmmFolder(std::move(path)));
}

VmmFolder::~VmmFolder() {
  if (end_ == End::kLeavesSockets) ::unlinkat(AT_FDCWD, path_.c_str(), AT_REMOVEDIR);
  if (end_ != End::kRemoves) return;
  const int code = remove_folder(path_);
  if (code != 0 && code != ENOENT)
    log::warn("the folder {} of a VM's QEMU cannot be removed ({}): remove it", path_,
              ::strerrordesc_np(code));
}

}  // namespace pvrdma::vmm
