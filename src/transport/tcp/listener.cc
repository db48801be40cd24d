#include "transport/tcp/listener.h"

#include <cerrno>
#include <fmt/core.h>
#include <netinet/in.h>
#include <new>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace pvrdma::transport::tcp {
namespace {

constexpr Duration kRetryPause = std::chrono::seconds(1);
constexpr int kBacklog = 64;
constexpr int kAcceptsPerTurn = 16;

}  // namespace

Listener::Listener(shard::Loop& loop, const Clock& clock, OnAccepted on_accepted)
    : loop_(loop), clock_(clock), on_accepted_(std::move(on_accepted)) {}

Listener::~Listener() {
  close();
}

void Listener::open(const IpAddress& address, std::uint16_t port) {
  close();
  address_ = address;
  port_ = port;
  try_open(clock_.now());
}

void Listener::close() {
  if (watched_) loop_.unwatch(socket_.get());
  watched_ = false;
  socket_.reset();
  retry_at_ = Instant::never();
  trouble_.clear();
}

void Listener::on_time(Instant now) {
  if (now >= retry_at_) try_open(now);
}

void Listener::try_open(Instant now) {
  const int code = bind_and_listen();
  if (code != 0) {
    socket_.reset();
    pause(code, "listen", now);
    return;
  }
  retry_at_ = Instant::never();
  trouble_.clear();
  log::info("tcp: listening at {} port {}", address_.to_string(), port_);
}

int Listener::bind_and_listen() {
  if (!socket_) {
    socket_ = Fd(::socket(address_.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_) return errno;
    const int on = 1;
    if (::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) return errno;
    if (address_.is_v6() && ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0)
      return errno;
    sockaddr_storage where{};
    const socklen_t length = address_.to_sockaddr(port_, where);
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0) return errno;
    if (::listen(socket_.get(), kBacklog) != 0) return errno;
  }
  auto watched = loop_.watch(socket_.get(), shard::Interest::kRead, *this);
  if (!watched) return watched.error().code;
  watched_ = true;
  return 0;
}

void Listener::pause(int code, const char* doing, Instant now) {
  retry_at_ = now + kRetryPause;
  try {
    std::string why = sentence(code, doing);
    if (why != trouble_) log::warn("tcp: {}; trying again each second", why);
    trouble_ = std::move(why);
  } catch (const std::bad_alloc&) {  // the sentence from before stays
  }
}

std::string Listener::sentence(int code, const char* doing) const {
  switch (code) {
    case EADDRNOTAVAIL:
      return fmt::format(
          "no interface of this host has address {}: bring the vmknic's interface up or tag another",
          address_.to_string());
    case EADDRINUSE:
      return fmt::format("another process listens at {} port {}: stop it or choose another port",
                         address_.to_string(), port_);
    default:
      return fmt::format("cannot {} at {} port {}: {}", doing, address_.to_string(), port_,
                         std::generic_category().message(code));
  }
}

void Listener::on_fd_ready(int /*fd*/, shard::Readiness /*ready*/) {
  for (int i = 0; i < kAcceptsPerTurn && watched_; ++i) {
    sockaddr_storage from{};
    socklen_t length = sizeof(from);
    Fd socket(
        ::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      const bool out_of_something = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (!out_of_something) return;
      // The waiting peer would keep the socket readable for ever, so it stays in the backlog for a while.
      const int code = errno;
      loop_.unwatch(socket_.get());
      watched_ = false;
      pause(code, "accept connections", clock_.now());
      return;
    }
    try {
      if (auto source = IpAddress::from(from)) on_accepted_(std::move(socket), *source);
    } catch (const std::bad_alloc&) {  // the peer will dial again
    }
  }
}

}  // namespace pvrdma::transport::tcp
