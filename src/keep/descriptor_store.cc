#include "keep/descriptor_store.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/passed_descriptors.h"
#include "base/whole_number.h"
#include "keep/notify.h"

namespace pvrdma::keep {
namespace {

constexpr int kFirstPassed = 3;  // SD_LISTEN_FDS_START

template <typename Number>
std::optional<Number> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? std::nullopt : whole_number<Number>(text);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

}  // namespace

Result<std::unique_ptr<DescriptorStore>> DescriptorStore::from_environment() {
  const char* const most = std::getenv("FDSTORE");
  if (most == nullptr || std::getenv("NOTIFY_SOCKET") == nullptr) return nullptr;
  const auto count = number_in<std::size_t>("FDSTORE");
  if (!count)
    return fail(EINVAL, fmt::format("FDSTORE={}: it must be the number of descriptors that are kept", most));
  if (*count == 0) return nullptr;
  auto socket = connect_to_manager();
  if (!socket) return Failure(std::move(socket).error());
  const timeval patience{std::chrono::duration_cast<std::chrono::seconds>(kPatience).count(), 0};
  if (::setsockopt(socket->get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0)
    return fail_errno(errno, "setting the time limit for NOTIFY_SOCKET");
  std::unique_ptr<DescriptorStore> store(new DescriptorStore(*std::move(socket), *count));
  store->collect();
  return store;
}

// Closes descriptors without a name. If a name occurs twice, the first descriptor counts.
void DescriptorStore::collect() {
  const auto process = number_in<pid_t>("LISTEN_PID");
  const auto count = number_in<int>("LISTEN_FDS");
  const char* const names = std::getenv("LISTEN_FDNAMES");
  const std::vector<std::string> named = split(names != nullptr ? names : "", ':');
  if (process == ::getpid() && count && *count > 0) {
    for (int i = 0; i < *count; ++i) {
      Fd fd(kFirstPassed + i);
      if (::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
        static_cast<void>(fd.release());  // was not open
        continue;
      }
      if (static_cast<std::size_t>(i) >= named.size()) continue;
      const std::string& name = named[static_cast<std::size_t>(i)];
      names_.insert(name);
      came_.emplace(name, std::move(fd));
    }
  }
  for (const char* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);
}

Result<void> DescriptorStore::put(const std::string& name, const Fd& fd) {
  if (names_.size() >= most_) {
    return fail(ENOSPC, fmt::format("{} file descriptors are kept already: raise FileDescriptorStoreMax= in "
                                    "the unit",
                                    names_.size()));
  }
  // FDPOLL=0: systemd must not drop the descriptor when a client has left; the next process sees that.
  auto sent = send(fmt::format("FDSTORE=1\nFDPOLL=0\nFDNAME={}", name), fd.get());
  if (sent) names_.insert(name);
  return sent;
}

Result<void> DescriptorStore::remove(const std::string& name) {
  auto sent = send(fmt::format("FDSTOREREMOVE=1\nFDNAME={}", name), -1);
  if (sent) names_.erase(name);
  return sent;
}

Result<void> DescriptorStore::settle() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "making a pipe");
  const Fd here(ends[0]);
  Fd there(ends[1]);
  if (auto sent = send("BARRIER=1", there.get()); !sent) return sent;
  there.reset();
  pollfd closed{here.get(), 0, 0};
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience);
  const int ready = ::poll(&closed, 1, static_cast<int>(patience.count()));
  if (ready < 0) return fail_errno(errno, "waiting for systemd");
  if (ready == 0) return fail(ETIMEDOUT, "systemd did not take the file descriptors in time");
  return {};
}

Result<void> DescriptorStore::send(std::string_view state, int fd) {
  iovec bytes{const_cast<char*>(state.data()), state.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  DescriptorRoom<1> room;
  if (fd >= 0) room.send_with(message, {&fd, 1});
  while (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return fail_errno(errno, "telling systemd to keep a file descriptor");
  }
  return {};
}

}  // namespace pvrdma::keep
