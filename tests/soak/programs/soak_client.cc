// soak_client: one guest of the soak. It drives one adapter with the user-space driver. Its commands come on
// standard input from tests/soak/soak.py.
//
// A command is a line, and so is each answer on standard output:
//   make ID BLOCK                              made ID QPN ADDRESS RKEY      one half of a connection
//   join ID ask|answer GID QPN ADDRESS RKEY    joined ID                     GID: the last byte of the peer's
//   drop ID                                    dropped ID ROUNDS
//   stir STEPS                                 stirred                       objects without traffic
//   rebind MS                                  rebound                       own GID away for so long
//   spare TIMES                                spared                        another GID bound or unbound, so
//   often rounds                                     rounds ID ROUNDS ...          of each connection leave
//   left TOTAL, and exit code 0; the end of the input does the same
// It also prints "ready" at the start, "lost ID TEXT" when a connection's work request has failed, and "wrong
// ID TEXT" when exactly-once delivery was violated. A command that the device refuses ends the client:
// "broken TEXT", exit code 1.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fmt/core.h>
#include <map>
#include <memory>
#include <optional>
#include <poll.h>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include "clutter.h"
#include "driver/driver.h"
#include "driver/vfio_user_bus.h"
#include "half.h"
#include "support/must.h"
#include "support/rc_endpoint.h"

namespace pvrdma::test {
namespace {

struct Options {
  std::string socket;
  std::uint32_t gid = 1;  // the last byte of 192.168.11.0/24
  std::uint64_t seed = 1;
  std::uint32_t ram_mib = 64;
  std::uint32_t pace_ms = 5;  // the least time between the beginnings of a connection's rounds
  std::uint32_t timeout = 18;
};

// Splits standard input into lines, without ever blocking.
class Input {
 public:
  // The next complete line, if there is one. Sets ended() at the end of the input.
  std::optional<std::string> line() {
    for (;;) {
      if (const std::size_t end = bytes_.find('\n'); end != std::string::npos) {
        std::string first = bytes_.substr(0, end);
        bytes_.erase(0, end + 1);
        return first;
      }
      pollfd ready{STDIN_FILENO, POLLIN, 0};
      if (ended_ || ::poll(&ready, 1, 0) <= 0) return std::nullopt;
      char part[4096];
      const ssize_t got = ::read(STDIN_FILENO, part, sizeof(part));
      if (got > 0) bytes_.append(part, static_cast<std::size_t>(got));
      ended_ = got == 0 || (got < 0 && errno != EINTR);
    }
  }
  bool ended() const { return ended_; }

 private:
  std::string bytes_;
  bool ended_ = false;
};

template <typename... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print("{}\n", fmt::format(format, std::forward<Arguments>(arguments)...));
  std::fflush(stdout);
}

abi::Gid gid_with(std::uint32_t last_byte) {
  abi::Gid gid = gid_of(0);
  gid.raw[15] = static_cast<std::uint8_t>(last_byte);
  return gid;
}

class Client {
 public:
  explicit Client(const Options& options)
      : options_(options),
        random_(options.seed),
        gid_(gid_with(options.gid)),
        spare_gid_(gid_with(options.gid)),
        device_(must(driver::Device::open(must(driver::VfioUserBus::connect(options.socket)),
                                          {.ram = {.size_bytes = std::uint64_t{options.ram_mib} << 20}}))),
        clutter_(*device_, random_) {
    spare_gid_.raw[14] = 12;  // 192.168.12.N
    must(device_->bind_gid(0, gid_));
  }

  void run() {
    say("ready");
    while (!leaving_) {
      while (const auto line = input_.line()) obey(*line);
      leaving_ = leaving_ || input_.ended();
      bind_again(false);
      if (!poll_connections()) wait();
    }
    bind_again(true);
    const std::uint64_t total = rounds();
    connections_.clear();
    const driver::Device::Oddities none;
    if (!(device_->oddities() == none)) say("wrong - the device's events name what does not exist");
    must(device_->unbind_gid(0, gid_));
    must(device_->close());
    say("left {}", total);
  }

 private:
  struct Connection {
    std::unique_ptr<Half> half;
    Instant not_before{};  // when its next round may begin
    bool told = false;     // its end has been reported
  };

  void obey(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    std::uint64_t id = 0;
    words >> command;
    if (command == "leave") {
      leaving_ = true;
    } else if (command == "rounds") {
      std::string each;
      for (const auto& [number, one] : connections_)
        each += fmt::format(" {} {}", number, one.half->rounds());
      say("rounds{}", each);
    } else if (!(words >> id)) {
      throw std::runtime_error(fmt::format("'{}' is no command", line));
    } else if (command == "make") {
      make(id, words);
    } else if (command == "join") {
      join(id, words);
    } else if (command == "drop") {
      drop(id);
    } else if (command == "spare") {
      for (; id > 0; --id) toggle_spare();
      say("spared");
    } else if (command == "stir") {
      must(clutter_.stir(static_cast<std::uint32_t>(id)));
      say("stirred");
    } else if (command == "rebind") {
      must(device_->unbind_gid(0, gid_));
      bind_at_ = Instant::now() + std::chrono::milliseconds(id);
    } else {
      throw std::runtime_error(fmt::format("'{}' is no command", line));
    }
  }

  void make(std::uint64_t id, std::istringstream& words) {
    std::uint32_t block = 0;
    words >> block;
    auto half = std::make_unique<Half>(*device_, gid_, block);
    const RcEndpoint& end = half->endpoint();
    say("made {} {} {} {}", id, end.qp->qpn(), end.remote().addr, end.remote().rkey);
    connections_[id] = {.half = std::move(half)};
  }

  void join(std::uint64_t id, std::istringstream& words) {
    std::string role;
    std::uint32_t gid = 0;
    Peer peer;
    words >> role >> gid >> peer.qpn >> peer.buffer.addr >> peer.buffer.rkey;
    peer.gid = gid_with(gid);
    if (!words) throw std::runtime_error("join lacks a word");
    must(connections_.at(id).half->join(role == "ask" ? Role::kAsker : Role::kAnswerer, peer,
                                        static_cast<std::uint8_t>(options_.timeout)));
    say("joined {}", id);
  }

  void drop(std::uint64_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) throw std::runtime_error(fmt::format("there is no connection {}", id));
    const std::uint64_t rounds = found->second.half->rounds();
    finished_rounds_ += rounds;
    connections_.erase(found);
    say("dropped {} {}", id, rounds);
  }

  void toggle_spare() {
    must(spare_bound_ ? device_->unbind_gid(1, spare_gid_) : device_->bind_gid(1, spare_gid_));
    spare_bound_ = !spare_bound_;
  }

  void bind_again(bool at_once) {
    if (!bind_at_ || (!at_once && Instant::now() < *bind_at_)) return;
    must(device_->bind_gid(0, gid_));
    bind_at_.reset();
    say("rebound");
  }

  bool poll_connections() {
    bool progress = false;
    const Instant now = Instant::now();
    for (auto& [id, connection] : connections_) {
      Half& half = *connection.half;
      const std::uint64_t before = half.rounds();
      progress = half.poll(now >= connection.not_before) || progress;
      if (half.rounds() != before) connection.not_before = now + std::chrono::milliseconds(options_.pace_ms);
      if (!half.ended() || connection.told) continue;
      connection.told = true;
      const Findings& found = half.findings();
      say("{} {} {}", found.wrong ? "wrong" : "lost", id, found.wrong ? *found.wrong : *found.lost);
    }
    return progress;
  }

  // Waits until there is a command or a notification, or may be a completion without one.
  void wait() {
    pollfd ready[]{{STDIN_FILENO, POLLIN, 0}, {device_->event_fd(abi::Vector::kNotification), POLLIN, 0}};
    ::poll(ready, 2, 2);
    device_->wait_notifications({});
    while (device_->poll_async_event()) {
    }
  }

  std::uint64_t rounds() const {
    std::uint64_t total = finished_rounds_;
    for (const auto& [id, connection] : connections_) total += connection.half->rounds();
    return total;
  }

  const Options options_;
  std::mt19937_64 random_;
  const abi::Gid gid_;
  abi::Gid spare_gid_;
  std::unique_ptr<driver::Device> device_;
  Clutter clutter_;
  std::map<std::uint64_t, Connection> connections_;
  Input input_;
  std::optional<Instant> bind_at_;  // when the GID is bound again
  std::uint64_t finished_rounds_ = 0;
  bool spare_bound_ = false;
  bool leaving_ = false;
};

int run(int argc, char** argv) {
  Options options;
  CLI::App app("soak_client: one guest of the soak, told on standard input what to do");
  app.add_option("--socket", options.socket, "vfio-user socket of the adapter")->required();
  app.add_option("--gid", options.gid, "its GID is ::ffff:192.168.11.N")->check(CLI::Range(1, 254));
  app.add_option("--seed", options.seed, "of the objects that stir makes");
  app.add_option("--ram", options.ram_mib, "MiB of guest memory")->check(CLI::Range(1, 4096));
  app.add_option("--pace", options.pace_ms, "milliseconds between a connection's rounds");
  app.add_option("--timeout", options.timeout, "the QPs' timeout, 4.096 us * 2^N")->check(CLI::Range(0, 31));
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    Client(options).run();
    return 0;
  } catch (const std::exception& error) {
    say("broken {}", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace pvrdma::test

int main(int argc, char** argv) {
  return pvrdma::test::run(argc, argv);
}
