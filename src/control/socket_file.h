// SocketFile: a UNIX socket's name in the file system: makes room for it before bind(), removes it at the
// end. Thread: control only.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

#include "base/result.h"

namespace pvrdma::control {

class SocketFile {
 public:
  // Removes what a dead process left at `path`. Errors, each one sentence with the path and the way out:
  // EADDRINUSE (a living server, or a file that is no socket), or errno.
  static Result<void> make_room(const std::string& path);

  // For a socket just bound to `path`.
  explicit SocketFile(std::string path);
  ~SocketFile();  // removes the file if it is still the same
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    friend bool operator==(const FileId&, const FileId&) = default;
  };
  static std::optional<FileId> file_id(const std::string& path);

  std::string path_;
  std::optional<FileId> id_;
};

}  // namespace pvrdma::control
