#include "keep/notify.h"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"

namespace pvrdma::keep {
namespace {

class NotifyTest : public testing::Test {
 protected:
  // A service manager's socket. A leading '@' means the abstract namespace.
  Fd listen_at(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path.front() == '@') address.sun_path[0] = '\0';
    Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    return fd;
  }
  static std::string received(const Fd& fd) {
    std::array<char, 64> text{};
    const auto size = ::recv(fd.get(), text.data(), text.size(), 0);
    return size < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(size));
  }
  void TearDown() override { ::unsetenv("NOTIFY_SOCKET"); }
};

TEST_F(NotifyTest, TellsTheServiceManager) {
  const std::string path = testing::TempDir() + "notify_test_" + std::to_string(::getpid()) + ".sock";
  ::unlink(path.c_str());
  const Fd manager = listen_at(path);
  notify("READY=1");
  EXPECT_EQ(received(manager), "READY=1");
  ::unlink(path.c_str());
}

TEST_F(NotifyTest, KnowsTheAbstractNamespace) {
  const Fd manager = listen_at("@pvrdma-notify-test-" + std::to_string(::getpid()));
  notify("STOPPING=1");
  EXPECT_EQ(received(manager), "STOPPING=1");
}

TEST_F(NotifyTest, IsSilentWithoutAServiceManager) {
  ::unsetenv("NOTIFY_SOCKET");
  notify("READY=1");
  ::setenv("NOTIFY_SOCKET", "/nowhere/notify.sock", 1);
  notify("READY=1");
  ::setenv("NOTIFY_SOCKET", std::string(200, 'x').c_str(), 1);
  notify("READY=1");
}

}  // namespace
}  // namespace pvrdma::keep
