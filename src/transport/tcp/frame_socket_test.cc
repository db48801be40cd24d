// What a lane waits for during its stream's TLS handshake. Tcp's tests cover everything after that.
#include "transport/tcp/frame_socket.h"

#include <array>
#include <poll.h>
#include <sys/socket.h>

#include "tls/test_certificates.h"
#include "transport/tcp/stream_fixture.h"
#include "transport/tcp/tcp_fixture.h"

namespace pvrdma::transport::tcp {
namespace {

struct QuietUser final : FrameSocket::User {
  void on_secured(Instant) override {}
  void on_greeting(const wire::Frame&, Instant) override {}
  void on_drained() override {}
};

TEST(FrameSocketTest, GoesOnWithAHandshakeWhenThereIsRoom) {
  tls::TestCertificates certificates;
  const auto secure = context(certificates.issue("esx1"));
  // The client writes to one socket pair and the lane to another, so that the test sees both.
  Sockets clients = unix_sockets();
  Sockets lanes = unix_sockets();
  const auto client = secure->client(std::move(clients.client)).value();
  ASSERT_EQ(client->handshake(), tls::Io::kWantRead);
  std::array<std::byte, 4096> bytes{};
  const ssize_t hello = ::recv(clients.server.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  ASSERT_GT(hello, 0);
  ASSERT_EQ(::send(lanes.client.get(), bytes.data(), static_cast<std::size_t>(hello), 0), hello);

  Bytes junk(4096);
  std::size_t filled = 0;
  for (ssize_t sent = 0; sent >= 0; filled += static_cast<std::size_t>(std::max<ssize_t>(sent, 0)))
    sent = ::send(lanes.server.get(), junk.data(), junk.size(), MSG_DONTWAIT);
  junk.resize(filled);

  World world;
  Host host(world, 1);
  QuietUser user;
  std::optional<TcpShared> shared;
  std::optional<FrameSocket> lane;
  world.on_shard([&] {
    shared.emplace(TcpOptions{.host_name = "esx1"}, world.loop(), world.clock(), host);
    lane.emplace(*shared, user, FrameSocket::Role::kAcceptor,
                 make_tls_stream(secure->server(std::move(lanes.server)).value()));
    ASSERT_TRUE(lane->start(world.clock().now()));
  });
  ASSERT_EQ(::recv(lanes.client.get(), junk.data(), filled, MSG_WAITALL), ssize_t(filled));
  pollfd answer{.fd = lanes.client.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&answer, 1, 5000), 1) << "nothing more comes that would wake it for reading";
  world.on_shard([&] {
    EXPECT_FALSE(lane->broken()) << lane->trouble();
    lane.reset();
    shared.reset();
  });
}

}  // namespace
}  // namespace pvrdma::transport::tcp
