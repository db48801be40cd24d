// DescriptorStore: file descriptors that outlive this process: systemd keeps them for the service's next one
// (sd_notify(3): FDSTORE, FDSTOREREMOVE, BARRIER; sd_listen_fds(3)). They come back under the names they were
// stored with.
//
// Who starts the process says that it keeps, and how many: FDSTORE=COUNT in the environment, which systemd
// sets from 254 on and a unit's Environment= before.
//
// Thread: one at a time; blocks while systemd is busy, for kPatience at most.
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

  // Takes what an earlier process has stored out of the environment; to be called once, before there are
  // threads. Null: nobody keeps anything for this process. Errors, a sentence: the variables are there and
  // make no sense, or the socket is not to be had.
  static Result<std::unique_ptr<DescriptorStore>> from_environment();

  // What has come back, by name; the first call has it. It stays stored.
  std::map<std::string, Fd> take() { return std::exchange(came_, {}); }

  // `name`: at most 255 printable characters without ':', one for each. `fd` is borrowed. Errors: ENOSPC, as
  // many are stored as may be; what sendmsg said.
  Result<void> put(const std::string& name, const Fd& fd);
  Result<void> remove(const std::string& name);
  // As put() and remove() left it, as far as this process knows.
  const std::set<std::string>& names() const { return names_; }

  // Returns when systemd has done what it was told before. Errors: ETIMEDOUT, what the system calls said.
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
