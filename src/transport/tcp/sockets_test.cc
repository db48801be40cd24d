#include "transport/tcp/sockets.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pvrdma::transport::tcp {
namespace {

std::string congestion_control_of(const Fd& socket) {
  std::array<char, 16> name{};
  socklen_t size = name.size();
  EXPECT_EQ(::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size), 0);
  return name.data();
}

std::string kernels_default() {
  return congestion_control_of(Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
}

std::string text_of(const char* path) {
  std::string text;
  std::getline(std::ifstream(path), text);
  return text;
}

// While it lives, this thread may do what an ordinary user may: it does not have CAP_NET_ADMIN.
class OrdinaryUser {
 public:
  OrdinaryUser() {
    EXPECT_EQ(::syscall(SYS_capget, &header_, before_.data()), 0);
    auto less = before_;
    less[0].effective &= ~(1U << CAP_NET_ADMIN);
    EXPECT_EQ(::syscall(SYS_capset, &header_, less.data()), 0);
  }
  ~OrdinaryUser() { EXPECT_EQ(::syscall(SYS_capset, &header_, before_.data()), 0); }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> before_{};
};

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
  const auto chosen = choose_congestion_control(std::nullopt);
  ASSERT_TRUE(chosen) << chosen.error().message;
  for (const std::string& name : {std::string("reno"), chosen->name}) {  // every user may use reno
    const auto socket = begin_connect(loopback, loopback, port, name);
    ASSERT_TRUE(socket) << socket.error().message;
    EXPECT_EQ(congestion_control_of(*socket), name);
  }
}

TEST(Sockets, AnOrdinaryUserGetsTheKernelsDefaultInPlaceOfAForbiddenOne) {
  const std::string allowed = text_of("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  const bool may_use_cubic = (" " + allowed + " ").find(" cubic ") != std::string::npos;
  const OrdinaryUser user;
  const auto chosen = choose_congestion_control(std::nullopt);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(chosen->name, may_use_cubic ? "cubic" : kernels_default());
  EXPECT_EQ(chosen->warning.empty(), may_use_cubic) << chosen->warning;
  const auto wanted = choose_congestion_control("cubic");
  EXPECT_EQ(wanted.has_value(), may_use_cubic);
  if (!wanted) {
    EXPECT_EQ(wanted.error().code, EPERM);
    EXPECT_EQ(
        wanted.error().message,
        "[tcp] congestion_control = \"cubic\": only root may use it: choose one that "
        "/proc/sys/net/ipv4/tcp_allowed_congestion_control lists, or let root add it there, or leave the key "
        "out");
  }
}

TEST(Sockets, TheKernelsDefaultReplacesAPreferredOneThatTheKernelDoesNotHave) {
  const OrdinaryUser user;
  const auto chosen = choose_congestion_control(std::nullopt, "nosuch");
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(chosen->name, kernels_default());
  EXPECT_EQ(chosen->warning,
            "tcp: congestion control " + kernels_default() +
                " instead of nosuch: the kernel does not have it, or its module is not loaded: let "
                "root load its module (modprobe tcp_nosuch) and add nosuch to "
                "/proc/sys/net/ipv4/tcp_allowed_congestion_control, or set [tcp] congestion_control");
}

}  // namespace
}  // namespace pvrdma::transport::tcp
