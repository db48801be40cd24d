// VmmFolder: the folder in which a VM's VMM makes the sockets that the daemon connects to. Only the VMM's
// user and the daemon may enter it. The daemon makes the folder, because the VMM may create no file beside
// the sockets of other VMs.
//
// What is in the folder belongs to the VMM and is not trusted: it is never listed, and at the end only the
// names of VmMonitors are removed. A folder in which a VMM has left other files stays.
//
// Thread: any, one at a time. Does not block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/socket_owner.h"

namespace pvrdma::vmm {

// Removes the VmmFolder of the adapter with this socket if it is empty, after the daemon that made it has
// died.
void remove_empty_folder_beside(const std::string& socket);

class VmmFolder {
 public:
  // Makes the folder for `owner`'s user; for the members of its group if it has no user; for this process's
  // user alone if it has neither. If an earlier process has made the folder for that user, it is used as it
  // is: a running VMM may have its sockets there. A folder of another user is removed before.
  // Errors, each one sentence with the path and the way out: another file, or a folder that cannot be
  // removed, is in the way; EPERM: this process may not give the folder away; mkdir's errno.
  static Result<std::unique_ptr<VmmFolder>> make(std::string path, const SocketOwner& owner);

  // The folder that another object of this process has made, which leave()s it to this one. Makes no system
  // call.
  static std::unique_ptr<VmmFolder> take_over(std::string path);

  ~VmmFolder();
  VmmFolder(const VmmFolder&) = delete;
  VmmFolder& operator=(const VmmFolder&) = delete;

  // The VMM goes on: its sockets stay, and the folder, unless it has none.
  void leave_sockets() { end_ = End::kLeavesSockets; }
  // The next process, or the object that has taken it over, will use the folder.
  void leave() { end_ = End::kLeaves; }

 private:
  explicit VmmFolder(std::string path) : path_(std::move(path)) {}

  enum class End : std::uint8_t { kRemoves, kLeavesSockets, kLeaves };

  const std::string path_;
  End end_ = End::kRemoves;
};

}  // namespace pvrdma::vmm
