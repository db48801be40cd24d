#include "base/socket_owner.h"

#include <cerrno>
#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/whole_number.h"

namespace pvrdma {
namespace {

constexpr std::size_t kEntryBytes = 16 * 1024;
constexpr std::size_t kEntryBytesMax = 1024 * 1024;  // a group may have many members

std::optional<unsigned> number_in(const std::string& text) {
  const auto number = whole_number<unsigned>(text);
  return number == ~0U ? std::nullopt : number;  // chown() takes the largest value as "leave unchanged"
}

// `look_up`: getpwnam_r or getgrnam_r. `kind`: "user" or "group".
template <typename Entry>
Result<void> find_entry(const char* kind, int (*look_up)(const char*, Entry*, char*, std::size_t, Entry**),
                        const std::string& name, Entry& entry) {
  std::vector<char> texts(kEntryBytes);
  Entry* found = nullptr;
  int code = look_up(name.c_str(), &entry, texts.data(), texts.size(), &found);
  while (code == ERANGE && texts.size() < kEntryBytesMax) {
    texts.resize(2 * texts.size());
    code = look_up(name.c_str(), &entry, texts.data(), texts.size(), &found);
  }
  if (found != nullptr) return {};
  // getpwnam(3) lists the codes that mean an unknown name, too.
  if (code == 0 || code == ENOENT || code == ESRCH || code == EBADF || code == EPERM)
    return fail(ErrorKind::kInvalid, ENOENT,
                fmt::format("this host has no {} {}: make it or name another", kind, name));
  return fail(
      ErrorKind::kUnavailable, code,
      fmt::format("this host cannot look up the {} {} ({}): see its nsswitch.conf and the log of what "
                  "that names, or give a number",
                  kind, name, std::generic_category().message(code)));
}

}  // namespace

Result<std::optional<uid_t>> find_user(const std::string& text) {
  if (text.empty()) return std::optional<uid_t>();
  if (const auto number = number_in(text)) return std::optional<uid_t>(*number);
  passwd entry{};
  if (auto found = find_entry("user", &::getpwnam_r, text, entry); !found)
    return Failure(std::move(found).error());
  return std::optional<uid_t>(entry.pw_uid);
}

Result<std::optional<gid_t>> find_group(const std::string& text) {
  if (text.empty()) return std::optional<gid_t>();
  if (const auto number = number_in(text)) return std::optional<gid_t>(*number);
  group entry{};
  if (auto found = find_entry("group", &::getgrnam_r, text, entry); !found)
    return Failure(std::move(found).error());
  return std::optional<gid_t>(entry.gr_gid);
}

// A database is asked only if those before it do not know the name.
void load_user_databases() {
  constexpr const char* kUnknown = "no such name";
  static_cast<void>(find_user(kUnknown));
  static_cast<void>(find_group(kUnknown));
}

SocketOwner owner_of(const std::string& path) {
  struct stat found {};
  SocketOwner owner;
  if (::lstat(path.c_str(), &found) != 0) return owner;
  if (found.st_uid != ::geteuid()) owner.user = found.st_uid;
  if (found.st_gid != ::getegid()) owner.group = found.st_gid;
  return owner;
}

Result<SocketOwner> find_owner(const std::string& user, const std::string& group) {
  auto uid = find_user(user);
  if (!uid) return Failure(std::move(uid).error().about("owner"));
  auto gid = find_group(group);
  if (!gid) return Failure(std::move(gid).error().about("group"));
  return SocketOwner{*uid, *gid};
}

}  // namespace pvrdma
