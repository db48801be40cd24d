// UnixListener: a listening UNIX socket and its file. It replaces the socket file that a dead server left at
// its path, but never that of a living server. At the end it removes the file if the file is still its own.
//
// Thread: any, one at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/socket_owner.h"

namespace pvrdma {

// The longest path that fits into a UNIX socket's address, without the NUL.
inline constexpr std::size_t kUnixPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

// `path` as an address. `what` names the socket in errors ("API socket"). Errors, each one sentence:
// ENAMETOOLONG; EINVAL for an empty path or one that contains a NUL (Linux would take either for another
// address).
Result<sockaddr_un> unix_address(std::string_view what, const std::string& path);

// Finds out whether a server listens at `address`, by connecting. 0: yes. Otherwise connect's errno,
// ECONNREFUSED for a file left behind. The server sees a client that connects and disconnects at once.
int probe_listener(const sockaddr_un& address);

// Removes the socket files of the folder that end with `suffix` and on which no process listens: servers that
// have ended left them. Leaves those that `is_used` picks by their path, and all other files. No other server
// may be binding a path there at the same time. Returns the paths of the removed files.
std::vector<std::string> remove_dead_sockets(const std::string& folder, std::string_view suffix,
                                             const std::function<bool(const std::string&)>& is_used);
// Removes the file of a listening socket that no server uses any more, and returns its path; empty: nothing
// was removed. The socket may be open elsewhere.
std::string remove_file_of(const Fd& listener);

class UnixListener {
 public:
  struct Options {
    std::string_view what;  // as above
    mode_t mode;            // of the file, without the umask's bits; set before a client can connect
    int backlog;
    int type = SOCK_STREAM;
    SocketOwner owner = {};  // if given, the umask does not apply; set before a client can connect
  };

  // Binds and listens. Errors, each one sentence with the path and the way out: those of unix_address(),
  // EADDRINUSE (a living server, or a file that is not a socket), ENOENT (the directory is missing), EPERM
  // (the daemon may not give the file to the owner), or bind's errno. `earlier`: a listening socket that an
  // earlier process has left; it is used instead of a new one. It is ignored if it does not listen at this
  // path or if its file is gone.
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
  // Identifies the socket's file, by lstat().
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
