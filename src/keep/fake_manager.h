// FakeManager: a service manager that keeps descriptors, as systemd does (sd_notify(3)), for tests.
#pragma once

#include <array>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace pvrdma::keep {

class FakeManager {
 public:
  // Sets NOTIFY_SOCKET to `path` as long as this lives.
  explicit FakeManager(std::string path, std::size_t most = 100) : path_(std::move(path)) {
    std::filesystem::remove(path_);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    socket_ = above(Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
    ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    const timeval moment{0, 10'000};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
    ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
    ::setenv("FDSTORE", std::to_string(most).c_str(), 1);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) receive();
    });
  }
  ~FakeManager() {
    thread_ = {};
    for (const char* variable : {"NOTIFY_SOCKET", "FDSTORE"}) ::unsetenv(variable);
    std::filesystem::remove(path_);
  }
  FakeManager(const FakeManager&) = delete;
  FakeManager& operator=(const FakeManager&) = delete;

  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, fd] : stored_) names.push_back(name);
    return names;
  }
  void store(const std::string& name, Fd fd) {
    const std::lock_guard lock(mutex_);
    stored_.insert_or_assign(name, above(fd));
  }
  void forget(const std::string& name) {
    const std::lock_guard lock(mutex_);
    stored_.erase(name);
  }

  // Returns the descriptors as if to the service's next process: copies of them replace descriptors from
  // number 3 on.
  void give_back() {
    const std::lock_guard lock(mutex_);
    std::string names;
    int next = 3;
    for (const auto& [name, fd] : stored_) {
      ::dup2(fd.get(), next);
      names += (next == 3 ? "" : ":") + name;
      ++next;
    }
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", std::to_string(next - 3).c_str(), 1);
    ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
  }

 private:
  // Moves a descriptor out of the way of the returned ones.
  static Fd above(const Fd& fd) { return Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 500)); }

  void receive() {
    std::array<char, 512> text{};
    iovec bytes{text.data(), text.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (size < 0) return;
    Fd fd;
    if (const cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr) {
      int raw = -1;
      std::memcpy(&raw, CMSG_DATA(head), sizeof(raw));
      fd = above(Fd(raw));
    }
    const std::string state(text.data(), static_cast<std::size_t>(size));
    const auto at = state.find("FDNAME=");
    const std::string name = at == std::string::npos ? "" : state.substr(at + 7);
    const std::lock_guard lock(mutex_);
    if (state.starts_with("FDSTORE=1"))
      stored_.insert_or_assign(name, std::move(fd));
    else if (state.starts_with("FDSTOREREMOVE=1"))
      stored_.erase(name);
  }

  const std::string path_;
  Fd socket_;
  mutable std::mutex mutex_;
  std::map<std::string, Fd> stored_;
  std::jthread thread_;
};

}  // namespace pvrdma::keep
