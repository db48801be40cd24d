// UnixListener: a listening UNIX socket and its file. It replaces the socket file that a dead server left at
// its path, but never that of a living server. At the end it removes the file if the file is still its own.
//
// Thread: any, one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/result.h"
#include "base/socket_owner.h"

namespace pvrdma {

// The longest path a UNIX socket's address has room for, without the NUL.
inline constexpr std::size_t kUnixPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

// `path` as an address; `what` says in errors whose socket it is ("API socket"). Errors, each one sentence:
// ENAMETOOLONG; EINVAL for an empty path or one with a NUL inside (which Linux would take for something
// else).
Result<sockaddr_un> unix_address(std::string_view what, const std::string& path);

// Is somebody listening at `address`? 0: yes; otherwise connect's errno, ECONNREFUSED for a file left behind.
// The server sees a client that connects and leaves at once.
int probe_listener(const sockaddr_un& address);

class UnixListener {
 public:
  struct Options {
    std::string_view what;  // as above
    mode_t mode;            // of the file, less the umask; there is no moment at which others can connect
    int backlog;
    SocketOwner owner = {};  // given: `mode` counts as it is; the file has it before anybody can connect
  };

  // Binds and listens. Errors, each one sentence with the path and the way out: those of unix_address(),
  // EADDRINUSE (a living server, or a file that is no socket), ENOENT (directory), EPERM (the owner), or
  // bind's errno. `earlier`: a socket that listened there already, in another process, and goes on to; one
  // that is none, or whose file is gone or another's, does not count.
  static Result<std::unique_ptr<UnixListener>> listen(std::string path, const Options& options,
                                                      Fd earlier = {});

  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }  // non-blocking

  // Another process owns the file from now on: the destructor does not remove it.
  void leave() { file_.reset(); }

 private:
  // What lstat() says about the socket's file: whose it is.
  struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    friend bool operator==(const FileId&, const FileId&) = default;
  };

  UnixListener(std::string path, Fd bound);

  static std::optional<FileId> file_id(const std::string& path);

  const std::string path_;
  const Fd fd_;
  std::optional<FileId> file_;  // nullopt: do not remove the file
};

}  // namespace pvrdma
