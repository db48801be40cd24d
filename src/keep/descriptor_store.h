// DescriptorStore: file descriptors that outlive this process. systemd keeps them for the service's next
// process (sd_notify(3): FDSTORE, FDSTOREREMOVE, BARRIER; sd_listen_fds(3)) and returns them with the names
// under which they were stored.
//
// FDSTORE=COUNT in the environment says that descriptors are kept, and how many. systemd sets it from version
// 254 on; before, a unit's Environment= does.
//
// Thread: one at a time; blocks while systemd is busy, for at most kPatience.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace pvrdma::keep {

class DescriptorStore {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(5);

  // Takes the descriptors of an earlier process, which the environment names. Call it once, before there are
  // threads. Null: no service manager keeps descriptors for this process. Errors, each a sentence: the
  // variables are invalid, or the socket cannot be opened.
  static Result<std::unique_ptr<DescriptorStore>> from_environment();

  // The returned descriptors by name. Only the first call gets them. They stay stored.
  std::map<std::string, Fd> take() { return std::exchange(came_, {}); }

  // Stores `fd` under `name`: at most 255 printable characters without ':', unique. `fd` is borrowed. Errors:
  // ENOSPC if the maximum is stored, or sendmsg()'s errno.
  Result<void> put(const std::string& name, const Fd& fd);
  Result<void> remove(const std::string& name);
  // The stored names after put() and remove(), as far as this process knows.
  const std::set<std::string>& names() const { return names_; }

  // Returns when systemd has processed all earlier messages. Errors: ETIMEDOUT, those of the system calls.
  Result<void> settle();

 private:
  DescriptorStore(Fd socket, std::size_t most) : socket_(std::move(socket)), most_(most) {}
  Result<void> send(std::string_view state, int fd);
  void collect();

  const Fd socket_;  // connected to NOTIFY_SOCKET
  const std::size_t most_;
  std::map<std::string, Fd> came_;
  std::set<std::string> names_;
};

}  // namespace pvrdma::keep
