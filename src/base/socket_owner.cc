#include "base/socket_owner.h"

#include <cerrno>
#include <charconv>
#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>
#include <vector>

namespace pvrdma {
namespace {

constexpr std::size_t kEntryBytes = 16 * 1024;
constexpr std::size_t kEntryBytesMax = 1024 * 1024;  // a group may have many members

std::optional<unsigned> number_in(const std::string& text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // chown() takes the largest value as "leave unchanged".
  if (error != std::errc() || end != text.data() + text.size() || number == ~0U) return std::nullopt;
  return number;
}

// `look_up`: getpwnam_r or getgrnam_r. False: the entry does not exist.
template <typename Entry>
bool find_entry(int (*look_up)(const char*, Entry*, char*, std::size_t, Entry**), const std::string& name,
                Entry& entry) {
  std::vector<char> texts(kEntryBytes);
  Entry* found = nullptr;
  int code = look_up(name.c_str(), &entry, texts.data(), texts.size(), &found);
  while (code == ERANGE && texts.size() < kEntryBytesMax) {
    texts.resize(2 * texts.size());
    code = look_up(name.c_str(), &entry, texts.data(), texts.size(), &found);
  }
  return found != nullptr;
}

}  // namespace

Result<std::optional<uid_t>> find_user(const std::string& text) {
  if (text.empty()) return std::optional<uid_t>();
  if (const auto number = number_in(text)) return std::optional<uid_t>(*number);
  passwd entry{};
  if (find_entry(&::getpwnam_r, text, entry)) return std::optional<uid_t>(entry.pw_uid);
  return fail(ENOENT, fmt::format("this host has no user {}: make it or name another", text));
}

Result<std::optional<gid_t>> find_group(const std::string& text) {
  if (text.empty()) return std::optional<gid_t>();
  if (const auto number = number_in(text)) return std::optional<gid_t>(*number);
  group entry{};
  if (find_entry(&::getgrnam_r, text, entry)) return std::optional<gid_t>(entry.gr_gid);
  return fail(ENOENT, fmt::format("this host has no group {}: make it or name another", text));
}

// A database is asked only if those before it do not know the name.
void load_user_databases() {
  constexpr const char* kUnknown = "no such name";
  static_cast<void>(find_user(kUnknown));
  static_cast<void>(find_group(kUnknown));
}

Result<SocketOwner> find_owner(const std::string& user, const std::string& group) {
  const auto uid = find_user(user);
  if (!uid) return Failure(uid.error());
  const auto gid = find_group(group);
  if (!gid) return Failure(gid.error());
  return SocketOwner{*uid, *gid};
}

}  // namespace pvrdma
