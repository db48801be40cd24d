#include "transport/tcp/sockets.h"

#include <array>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>

namespace pvrdma::transport::tcp {
namespace {

std::string congestion_control_of(const Fd& socket) {
  std::array<char, 16> name{};
  socklen_t size = name.size();
  EXPECT_EQ(::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size), 0);
  return name.data();
}

TEST(Sockets, ConnectWithTheCongestionControlThatWasChosen) {
  const IpAddress loopback = IpAddress::parse("127.0.0.1").value();
  sockaddr_storage where{};
  socklen_t length = loopback.to_sockaddr(0, where);
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&where), length), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  length = sizeof where;
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&where), &length), 0);
  const std::uint16_t port = ntohs(reinterpret_cast<const sockaddr_in&>(where).sin_port);
  for (const char* name : {"reno", "cubic"}) {  // every user may choose these
    ASSERT_TRUE(check_congestion_control(name));
    const auto socket = begin_connect(loopback, loopback, port, name);
    ASSERT_TRUE(socket) << socket.error().message;
    EXPECT_EQ(congestion_control_of(*socket), name);
  }
}

}  // namespace
}  // namespace pvrdma::transport::tcp
