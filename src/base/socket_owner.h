// SocketOwner: the user and the group that a UNIX socket's file is given to.
//
// Thread: find_owner() any; blocks as the system's user database does.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

#include "base/result.h"

namespace pvrdma {

struct SocketOwner {
  std::optional<uid_t> user;   // none: who made it
  std::optional<gid_t> group;  // none: the maker's

  bool is_given() const { return user || group; }
  friend bool operator==(const SocketOwner&, const SocketOwner&) = default;
};

// By name or number; empty: none. Errors, one clause each with the way out: this host has no such user, no
// such group.
Result<std::optional<uid_t>> find_user(const std::string& text);
Result<std::optional<gid_t>> find_group(const std::string& text);
Result<SocketOwner> find_owner(const std::string& user, const std::string& group);

}  // namespace pvrdma
