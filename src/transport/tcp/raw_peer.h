// Ends of connections that a test drives directly, blocking, on its own thread; and TcpRawTest, one Host with
// such peers.
#pragma once

#include <poll.h>

#include "transport/tcp/tcp_fixture.h"

namespace pvrdma::transport::tcp {

// A blocking socket that the test's thread drives directly. Its calls give up after half a minute.
class RawPeer {
 public:
  // Dials `to` from `from`.
  static RawPeer dial(const IpAddress& from, const IpAddress& to, int receive_bytes = 0) {
    Fd socket(::socket(from.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_bytes != 0)
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    sockaddr_storage where{};
    socklen_t length = from.to_sockaddr(0, where);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&where), length), 0);
    length = to.to_sockaddr(kTestPort, where);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&where), length), 0)
        << std::strerror(errno);
    return RawPeer(std::move(socket));
  }
  explicit RawPeer(Fd socket) : socket_(std::move(socket)) {
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const int on = 1;  // otherwise the kernel delays small messages while the test's clock runs on
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }

  bool send(std::span<const std::byte> bytes) {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  bool send(const wire::Frame& frame, const Bytes& payload = {}) {
    wire::Head buffer;
    const auto head = wire::encode(frame, buffer);
    EXPECT_FALSE(head.empty());
    return send(head) && (payload.empty() || send(payload));
  }
  bool hello(const std::string& name, std::uint16_t lane = 0, std::uint16_t lanes = 1) {
    return hello(wire::Hello{.host = wire::HostName(name), .lane = lane, .lanes = lanes, .id = {1, 2}});
  }
  bool hello(const wire::Hello& hello) { return send(wire::Frame{.body = hello}); }

  // The next frame, or nothing at the end of the stream and after half a minute.
  std::optional<wire::Frame> next(Bytes* payload = nullptr) {
    wire::Frame frame;
    for (;;) {
      const wire::Decoded decoded = wire::decode(held_, frame);
      EXPECT_NE(decoded.state, wire::Decoded::State::kBad) << describe(decoded.defect);
      if (decoded.state == wire::Decoded::State::kBad) return std::nullopt;
      const std::size_t wanted = decoded.head_bytes + decoded.payload_bytes;
      if (decoded.state == wire::Decoded::State::kComplete && held_.size() >= wanted) {
        const auto end = held_.begin() + static_cast<std::ptrdiff_t>(wanted);
        if (payload != nullptr)
          payload->assign(held_.begin() + static_cast<std::ptrdiff_t>(decoded.head_bytes), end);
        held_.erase(held_.begin(), end);
        return frame;
      }
      std::array<std::byte, 65536> more;
      const ssize_t got = ::recv(socket_.get(), more.data(), more.size(), 0);
      if (got <= 0) return std::nullopt;
      held_.insert(held_.end(), more.begin(), more.begin() + got);
    }
  }
  // The next frame of that kind, after any number of pings.
  template <typename Kind>
  std::optional<Kind> next_as() {
    auto frame = next();
    while (!std::is_same_v<Kind, wire::Ping> && frame && std::holds_alternative<wire::Ping>(frame->body))
      frame = next();
    if (!frame || !std::holds_alternative<Kind>(frame->body)) return std::nullopt;
    return std::get<Kind>(frame->body);
  }
  bool ended() { return !next().has_value(); }
  int fd() const { return socket_.get(); }

 private:
  Fd socket_;
  Bytes held_;
};

// Accepts connections in place of a host.
class RawListener {
 public:
  explicit RawListener(const IpAddress& address, int receive_bytes = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (receive_bytes != 0)
      ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    sockaddr_storage where{};
    const socklen_t length = address.to_sockaddr(kTestPort, where);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&where), length), 0) << std::strerror(errno);
    EXPECT_EQ(::listen(socket_.get(), 16), 0);
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  RawPeer accept() { return RawPeer(Fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC))); }
  // Accepts one waiting connection and closes it at once. False: there is none.
  bool turn_one_away() {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 0) != 1) return false;
    accept();
    return true;
  }
  // Accepts a connection, and answers its hello with Welcome. `lane` receives the lane number of the hello.
  RawPeer accept_as(const std::string& name, std::uint16_t* lane = nullptr) {
    RawPeer peer = accept();
    const auto hello = peer.next_as<wire::Hello>();
    EXPECT_TRUE(hello.has_value());
    if (!hello) return peer;
    if (lane != nullptr) *lane = hello->lane;
    EXPECT_TRUE(peer.send(wire::Frame{.body = wire::Welcome{.host = wire::HostName(name), .id = hello->id}}));
    return peer;
  }

 private:
  Fd socket_;
};

// One host and peers that the test drives directly.
class TcpRawTest : public testing::Test {
 protected:
  // A complete request of `bytes` bytes, sent unchanged.
  wire::Frame request_frame(std::uint64_t sequence, std::uint32_t number, std::size_t bytes) {
    return {.sequence = sequence, .segment = kSegment, .body = a_write(a_.id(), 9, number, bytes).request};
  }
  void know_raw_peer() {
    a_.add_peer({.id = HostId(9), .name = "esx9", .address = address_of(9), .port = kTestPort});
    a_.apply();
  }
  RawPeer enter() {
    RawPeer peer = RawPeer::dial(address_of(9), a_.address());
    EXPECT_TRUE(peer.hello("esx9"));
    const auto welcome = peer.next_as<wire::Welcome>();
    EXPECT_TRUE(welcome && welcome->host == wire::HostName("esx1") && welcome->id == (wire::HelloId{1, 2}));
    return peer;
  }
  const TcpErrors errors() {
    return world_.on_shard([&] { return a_.tcp().errors(); });
  }

  World world_;
  Host a_{world_, 1, TcpOptions{.lanes = 2}};
};

}  // namespace pvrdma::transport::tcp
