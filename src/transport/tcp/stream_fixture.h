// Shared by the tests of streams: connected socket pairs, and streams over them. Thread: the test's.
#pragma once

#include <arpa/inet.h>
#include <array>
#include <gtest/gtest.h>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <random>
#include <span>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "tls/context.h"
#include "transport/tcp/plain_stream.h"
#include "transport/tcp/tls_stream.h"

namespace pvrdma::transport::tcp {

struct Sockets {
  Fd client, server;
};

inline Sockets unix_sockets() {
  std::array<int, 2> fds{};
  PVRDMA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0, "socketpair");
  return {Fd(fds[0]), Fd(fds[1])};
}

inline Sockets tcp_sockets() {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  PVRDMA_CHECK(::bind(listener.get(), raw, size) == 0 && ::listen(listener.get(), 1) == 0 &&
                   ::getsockname(listener.get(), raw, &size) == 0,
               "listens on loopback");
  Sockets sockets;
  sockets.client = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  PVRDMA_CHECK(::connect(sockets.client.get(), raw, size) == 0, "connects");
  sockets.server = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  PVRDMA_CHECK(bool(sockets.server), "accepts");
  return sockets;
}

struct Streams {
  std::unique_ptr<Stream> client, server;
};

// Waits until either stream has input. Its time limit is only a hang guard.
inline void wait_for_bytes(const Streams& streams) {
  std::array<pollfd, 2> fds{{{streams.client->fd(), POLLIN, 0}, {streams.server->fd(), POLLIN, 0}}};
  PVRDMA_CHECK(::poll(fds.data(), fds.size(), 30000) > 0, "nothing moves any more");
}

// Runs both handshakes until both are done, or one has failed and the other has noticed or is done.
inline std::pair<Stream::Handshake, Stream::Handshake> shake_hands(Streams& streams) {
  using enum Stream::Handshake;
  while (true) {
    const auto client = streams.client->handshake();
    const auto server = streams.server->handshake();
    const auto over = [](auto state) { return state == kDone || state == kFailed; };
    if (over(client) && over(server)) return {client, server};
    if (!over(client) || !over(server)) {
      // Bytes that one side has just written may already have reached the other.
      if (streams.client->handshake() == client && !over(server)) wait_for_bytes(streams);
    }
  }
}

inline std::unique_ptr<tls::Context> context(const tls::Files& files) {
  auto made = tls::Context::mutual(files);
  PVRDMA_CHECK(made.has_value(), "the test's certificates are fine");
  return std::move(*made);
}

inline Streams tls_streams(const tls::Files& client, const tls::Files& server, Sockets sockets) {
  Streams streams;
  streams.client = make_tls_stream(*context(client)->client(std::move(sockets.client)));
  streams.server = make_tls_stream(*context(server)->server(std::move(sockets.server)));
  return streams;
}

inline Streams plain_streams(Sockets sockets) {
  return {make_plain_stream(std::move(sockets.client)), make_plain_stream(std::move(sockets.server))};
}

inline std::vector<std::byte> random_bytes(std::size_t size, std::mt19937& random) {
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

inline iovec piece(const std::byte* data, std::size_t size) {
  return {const_cast<std::byte*>(data), size};
}

inline void send_all(Stream& stream, std::span<const std::byte> bytes) {
  const iovec one = piece(bytes.data(), bytes.size());
  const Transfer sent = stream.write_some({&one, 1});
  ASSERT_EQ(sent.io, Io::kDone);
  ASSERT_EQ(sent.bytes, bytes.size());
}

}  // namespace pvrdma::transport::tcp
