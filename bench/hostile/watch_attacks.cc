// Six readers of /v1/watch, as six browsers in front of the page. It is no attack, but what the page costs
// the neighbour. A listener has six places, of which one user has four; so the bench needs root for all six.
#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "attack.h"
#include "base/fd.h"
#include "base/unix_listener.h"

namespace pvrdma::bench {
namespace {

constexpr std::size_t kWatchersMax = 6;
constexpr std::size_t kWatchersOfUserMax = 4;
constexpr uid_t kOtherUser = 65534;
constexpr int kPatienceMs = 5000;
constexpr std::string_view kRequest = "GET /v1/watch HTTP/1.1\r\nHost: localhost\r\n\r\n";

// A connection of this user: that is whom the daemon sees.
Fd connect_as(uid_t user, const std::string& path) {
  const auto address = unix_address("the daemon's API", path);
  if (!address) throw std::runtime_error(address.error().message);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const uid_t own = ::geteuid();
  const bool switched = user != own && ::seteuid(user) == 0;
  const int failed =
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0 ? 0
                                                                                                   : errno;
  if (switched && ::seteuid(own) != 0) throw std::runtime_error("the bench cannot be root again");
  if (failed != 0) throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(failed)));
  return socket;
}

// What has arrived. None: the daemon has ended the stream.
std::optional<std::string> take(const Fd& socket) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got > 0) return std::string(buffer.data(), static_cast<std::size_t>(got));
  return got < 0 && errno == EAGAIN ? std::optional<std::string>("") : std::nullopt;
}

std::string watchers(Field& field) {
  const std::size_t count = ::geteuid() == 0 ? kWatchersMax : kWatchersOfUserMax;
  if (::chmod(field.sockets.back().c_str(), 0660) != 0)  // the umask forbids other users of the group
    throw std::runtime_error(fmt::format("{}: {}", field.sockets.back(), std::strerror(errno)));
  std::vector<Fd> readers;
  std::vector<pollfd> waits;
  for (std::size_t i = 0; i < count; ++i) {
    readers.push_back(connect_as(i < kWatchersOfUserMax ? ::geteuid() : kOtherUser, field.sockets.back()));
    if (::send(readers.back().get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) < 0)
      throw std::runtime_error(fmt::format("the request of watcher {}: {}", i + 1, std::strerror(errno)));
    waits.push_back({.fd = readers.back().get(), .events = POLLIN, .revents = 0});
    ::poll(&waits.back(), 1, kPatienceMs);
    const std::string head = take(readers.back()).value_or("");
    if (!head.starts_with("HTTP/1.1 200"))
      throw std::runtime_error(fmt::format("watcher {} is refused: {}", i + 1, head.substr(0, 400)));
  }
  field.begin();
  std::size_t bytes = 0;
  while (!field.over()) {
    ::poll(waits.data(), waits.size(), 100);
    for (const Fd& reader : readers) {
      const auto taken = take(reader);
      if (!taken) throw std::runtime_error("the daemon has ended a stream");
      bytes += taken->size();
    }
  }
  return fmt::format("{} watchers read {} bytes", count, bytes);
}

constexpr Attack kAttacks[] = {
    {.name = "watchers",
     .what = "six readers of /v1/watch (four without root)",
     .run = &watchers,
     .api = true},
};

}  // namespace

std::span<const Attack> watch_attacks() {
  return kAttacks;
}

}  // namespace pvrdma::bench
