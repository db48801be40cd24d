// SocketOwner: the user and the group that own the file of a UNIX socket.
//
// Thread: find_owner() any; blocks as the system's user database does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

#include "base/result.h"

namespace pvrdma {

struct SocketOwner {
  std::optional<uid_t> user;   // nullopt: the user that creates the file
  std::optional<gid_t> group;  // nullopt: the creator's group

  bool is_given() const { return user || group; }
  friend bool operator==(const SocketOwner&, const SocketOwner&) = default;
};

// `text` is a name or a number. An empty text gives nullopt. Errors, one clause each with the way out: this
// host has no such user, or no such group (kInvalid); they cannot be looked up now (kUnavailable).
Result<std::optional<uid_t>> find_user(const std::string& text);
Result<std::optional<gid_t>> find_group(const std::string& text);
Result<SocketOwner> find_owner(const std::string& user, const std::string& group);

// find_owner(), or what stands for it.
using FindOwner = std::function<Result<SocketOwner>(const std::string& user, const std::string& group)>;

// To whom the file was given. Neither if it does not exist.
SocketOwner owner_of(const std::string& path);

// Makes the C library load what it needs for the above: a shared library for each user database that this
// host's nsswitch.conf names. A confined process cannot load libraries. Blocks like a look-up.
void load_user_databases();

}  // namespace pvrdma
