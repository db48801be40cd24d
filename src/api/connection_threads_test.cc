// Connections that hold threads, and the clients beside them.
#include "api/connection_threads.h"

#include <arpa/inet.h>
#include <array>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "api/connection_queue.h"

namespace pvrdma::api {
namespace {

class ConnectionQueueTest : public testing::Test {
 protected:
  // Returns the descriptor's number.
  int put(const std::string& client) {
    Fd socket(::eventfd(0, EFD_CLOEXEC));
    const int number = socket.get();
    queue_.put({std::move(socket), client});
    return number;
  }
  // The number of the descriptor whose turn it is; -1: nobody's.
  int take() {
    auto next = queue_.take();
    if (!next) return -1;
    served_.push_back(std::move(*next));
    return served_.back().socket.get();
  }
  static bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

  ConnectionQueue queue_{4};
  std::vector<ConnectionQueue::Connection> served_;
};

TEST_F(ConnectionQueueTest, ServesAClientInItsOrderByHalfOfTheThreads) {
  const int first = put("a");
  const int second = put("a");
  const int third = put("a");
  EXPECT_EQ(take(), first);
  EXPECT_EQ(take(), second);
  EXPECT_EQ(take(), -1) << "two of four threads";
  queue_.done("a");
  EXPECT_EQ(take(), third);
  EXPECT_EQ(take(), -1);
}

TEST_F(ConnectionQueueTest, PrefersTheClientThatIsServedByTheFewest) {
  const int first = put("a");
  put("a");
  const int other = put("b");
  EXPECT_EQ(take(), first);
  EXPECT_EQ(take(), other);
}

TEST_F(ConnectionQueueTest, DropsTheNewestOfTheClientWithTheMost) {
  const int other = put("b");
  std::vector<int> many;
  for (std::size_t i = 1; i < ConnectionQueue::kWaiting; ++i) many.push_back(put("a"));
  for (const int each : many) ASSERT_TRUE(is_open(each));
  const int late = put("c");
  EXPECT_TRUE(is_open(late));
  EXPECT_TRUE(is_open(other));
  EXPECT_TRUE(is_open(many.front()));
  EXPECT_FALSE(is_open(many.back()));
}

// A server on 127.0.0.1 with four threads that sends each byte back. Clients have other addresses of 127/8.
class ConnectionThreadsTest : public testing::Test {
 protected:
  ConnectionThreadsTest() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    address_ = loopback("127.0.0.1");
    socklen_t length = sizeof(address_);
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    EXPECT_EQ(::bind(listener_.get(), address, length), 0);
    EXPECT_EQ(::listen(listener_.get(), 256), 0);
    EXPECT_EQ(::getsockname(listener_.get(), address, &length), 0);
    threads_.start(listener_.get());
  }

  static sockaddr_in loopback(const char* text) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    EXPECT_EQ(::inet_pton(AF_INET, text, &out.sin_addr), 1);
    return out;
  }
  Fd connect_from(const char* from) const {
    Fd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in own = loopback(from);
    EXPECT_EQ(::bind(out.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(::connect(out.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)), 0);
    return out;
  }
  // The time limit only guards against hanging.
  static bool is_served(const Fd& client) {
    char byte = 'x';
    pollfd ready{client.get(), POLLIN, 0};
    return ::send(client.get(), &byte, 1, MSG_NOSIGNAL) == 1 && ::poll(&ready, 1, 20'000) == 1 &&
           ::recv(client.get(), &byte, 1, 0) == 1;
  }
  static void echo(const Fd& client, const std::atomic<bool>& closing) {
    while (!closing) {
      pollfd ready{client.get(), POLLIN, 0};
      char byte = 0;
      if (::poll(&ready, 1, 20) != 1) continue;
      if (::recv(client.get(), &byte, 1, 0) != 1 || ::send(client.get(), &byte, 1, MSG_NOSIGNAL) != 1) return;
    }
  }

  const Fd listener_;
  sockaddr_in address_{};
  ConnectionThreads threads_{"test", 4,
                             [](ConnectionQueue::Connection connection, const std::atomic<bool>& closing) {
                               echo(connection.socket, closing);
                             }};
};

TEST_F(ConnectionThreadsTest, SilentConnectionsHoldUpTheirOwnAddressOnly) {
  std::vector<Fd> silent;
  for (int i = 0; i < 60; ++i) silent.push_back(connect_from("127.0.0.2"));
  EXPECT_TRUE(is_served(connect_from("127.0.0.3")));
  silent.clear();
  EXPECT_TRUE(is_served(connect_from("127.0.0.2"))) << "the silent ones have ended";
}

TEST_F(ConnectionThreadsTest, MoreConnectionsThanMayWaitAreNoMatterForOthers) {
  std::vector<Fd> silent;
  for (std::size_t i = 0; i < ConnectionQueue::kWaiting + 40; ++i)
    silent.push_back(connect_from("127.0.0.2"));
  EXPECT_TRUE(is_served(connect_from("127.0.0.3")));
}

TEST(ClientOf, TellsUsersOfAUnixSocketApart) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  const Fd first(pair[0]);
  const Fd second(pair[1]);
  EXPECT_EQ(client_of(address_of(first.get())), "uid " + std::to_string(::getuid()));
  if (::getuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::thread([] {  // the bare system call changes this thread only
    ASSERT_EQ(::syscall(SYS_setresuid, -1, 4711, -1), 0);
    std::array<int, 2> others{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others.data()), 0);
    EXPECT_EQ(client_of(address_of(others[0])), "uid 4711");
    ::close(others[0]);
    ::close(others[1]);
  })
      .join();
}

TEST(AddressOf, IsAllOfAnIpv6AddressThatClientOfShortens) {
  const Fd listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  socklen_t length = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), plain, length) != 0) GTEST_SKIP() << "this host has no IPv6";
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), plain, &length), 0);
  const Fd near(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(near.get(), plain, length), 0);
  const Fd far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(address_of(far.get()), "::1");
  EXPECT_EQ(client_of("::1"), "::/64");
  EXPECT_EQ(client_of("fd00:1:2:3:4::5"), "fd00:1:2:3::/64");
  EXPECT_EQ(client_of("192.168.1.5"), "192.168.1.5");
}

}  // namespace
}  // namespace pvrdma::api
