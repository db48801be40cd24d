// FakeQemu: the other end of a monitor, on its own thread, that answers by a script.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>

#include "base/unix_listener.h"
#include "vmm/monitor.h"

namespace pvrdma::vmm {

class FakeQemu {
 public:
  // Returns the reply to a command, or nothing to hang up. Called on FakeQemu's thread.
  using Script = std::function<std::optional<Json>(const std::string& command, const Json& arguments)>;

  FakeQemu(std::string path, Script script, std::string greeting = R"({"QMP": {"version": {}}})")
      : listener_(
            UnixListener::listen(std::move(path), {.what = "fake QEMU", .mode = 0600, .backlog = 4}).value()),
        script_(std::move(script)),
        greeting_(std::move(greeting)),
        thread_([this] { serve(); }) {}
  ~FakeQemu() {
    stop_ = true;
    thread_.join();
  }
  FakeQemu(const FakeQemu&) = delete;
  FakeQemu& operator=(const FakeQemu&) = delete;

  std::vector<std::string> commands() {
    const std::lock_guard lock(mutex_);
    return commands_;
  }

  static Json returning(Json value = Json::object()) { return {{"return", std::move(value)}}; }
  static Json refusing(const std::string& why) {
    return {{"error", {{"class", "GenericError"}, {"desc", why}}}};
  }

 private:
  // False: the client has gone.
  bool wait(int fd) const {
    while (!stop_) {
      pollfd ready{fd, POLLIN, 0};
      if (::poll(&ready, 1, 2) > 0) return true;
    }
    return false;
  }
  void serve() {
    while (wait(listener_->fd())) {
      const Fd client(::accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client) talk(client.get());
    }
  }
  void talk(int fd) {
    if (!say(fd, greeting_)) return;
    std::string received;
    while (wait(fd)) {
      char bytes[4096];
      const ssize_t got = ::recv(fd, bytes, sizeof(bytes), 0);
      if (got <= 0) return;
      received.append(bytes, static_cast<std::size_t>(got));
      for (auto end = received.find('\n'); end != std::string::npos; end = received.find('\n')) {
        const Json request = Json::parse(received.substr(0, end));
        received.erase(0, end + 1);
        if (!answer(fd, request)) return;
      }
    }
  }
  bool answer(int fd, const Json& request) {
    const auto command = request.at("execute").get<std::string>();
    if (command == "qmp_capabilities") return say(fd, returning().dump());
    const Json arguments = request.value("arguments", Json::object());
    {
      const std::lock_guard lock(mutex_);
      commands_.push_back(command == "human-monitor-command" ? arguments.at("command-line").get<std::string>()
                                                             : command);
    }
    const auto reply = script_(command, arguments);
    return reply && say(fd, reply->is_string() ? reply->get<std::string>() : reply->dump());
  }
  static bool say(int fd, const std::string& text) {
    const std::string line = text + "\r\n";
    return ::send(fd, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
  }

  const std::unique_ptr<UnixListener> listener_;
  const Script script_;
  const std::string greeting_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::vector<std::string> commands_;
  std::thread thread_;
};

}  // namespace pvrdma::vmm
