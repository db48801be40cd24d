#include <functional>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/unix_listener.h"
#include "pvrdmad/sandbox_fixture.h"
#include "support/must.h"
#include "support/net_namespace.h"
#include "transport/roce/link_fixture.h"
#include "transport/roce/packet_socket_fixture.h"

// RoCE links work in the sandbox. Each link is opened before the fork; the confined child process then uses
// it.
namespace pvrdma::daemon {
namespace {

using test::must;
using test::NetNamespace;
using transport::roce::frame_of;
using transport::roce::LinkTest;
using transport::roce::open_link;
using transport::roce::PacketSocket;
using transport::roce::send;

constexpr SandboxNeeds kXdpNeeds{.find_links = true};
constexpr SandboxNeeds kTapNeeds{.open_devices = true, .find_links = true, .take_taps = true};

class SandboxLinksTest : public LinkTest {
 protected:
  // A fork while the log writes a line could leave the child a locked log.
  SandboxLinksTest() { log::set_level(log::Level::kError); }

  void open(LinkKind kind, const std::string& name) {
    link_ = must(open_link({kind, name}, *loop_, clock_, handler_));
  }
  bool comes_up() {
    return turn_until([&] { return link_->is_up(); });
  }
  bool goes_out() {
    const bool sent = send(*link_, frame_of(60, 1));
    link_->flush(clock_.now());
    return sent;
  }
  bool comes_in() {
    return turn_until([&] { return !handler_.frames.empty(); });
  }

  std::unique_ptr<transport::roce::Link> link_;
};

// An administrator's thread that is not confined. It does `what` when asked.
class Administrator {
 public:
  explicit Administrator(std::function<bool()> what) {
    if (::pipe(ends_) != 0) throw std::runtime_error("pipe");
    thread_ = std::thread([this, what] {
      char asked = 0;
      EXPECT_EQ(::read(ends_[0], &asked, 1), 1);
      EXPECT_TRUE(what());
    });
  }
  ~Administrator() {
    ask();  // the thread must not wait for ever if it was never asked
    thread_.join();
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  bool ask() { return ::write(ends_[1], "!", 1) == 1; }

 private:
  int ends_[2];
  std::thread thread_;
};

TEST_F(SandboxLinksTest, AStreamNeedsNothing) {
  const std::string path = testing::TempDir() + "sandbox_links_test_" + std::to_string(::getpid());
  const auto listener = must(UnixListener::listen(path, {.what = "test socket", .mode = 0600, .backlog = 1}));
  open(LinkKind::kStream, path);
  const Outcome outcome = confined({}, [&] {
    if (!comes_up() || !goes_out()) return 1;
    const Fd peer(::accept4(listener->fd(), nullptr, nullptr, SOCK_CLOEXEC));
    char bytes[64];
    if (::recv(peer.get(), bytes, sizeof(bytes), 0) != 64) return 2;
    if (::send(peer.get(), bytes, sizeof(bytes), 0) != 64 || !comes_in()) return 3;
    return sandbox::refused_calls() == 0 ? 0 : 4;
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.log;
}

TEST_F(SandboxLinksTest, ATapIsTakenWhenItIsThere) {
  const NetNamespace network;
  if (!network) GTEST_SKIP() << "makes a network namespace: needs root";
  if (!NetNamespace::ip("tuntap add probe mode tap")) GTEST_SKIP() << "this machine has no /dev/net/tun";
  const auto make = [] {
    return NetNamespace::ip("tuntap add pvroce0 mode tap") && NetNamespace::ip("link set pvroce0 up");
  };
  open(LinkKind::kTap, "pvroce0");
  {
    Administrator administrator(make);
    const Outcome outcome = confined(kTapNeeds, [&] {
      loop_->turn(Duration{0});
      if (!link_->trouble().starts_with("there is no such device") || !administrator.ask()) return 1;
      if (!comes_up() || !goes_out()) return 2;
      return link_->counters().sent_pkts == 1 && sandbox::refused_calls() == 0 ? 0 : 3;
    });
    EXPECT_EQ(outcome.exit_code, 0) << outcome.log;
  }
  const Outcome refused = confined(kXdpNeeds, [&] {
    return turn_until([&] { return link_->trouble().starts_with("the device belongs to another user"); }) &&
                   sandbox::refused_calls() != 0
               ? 0
               : 1;
  });
  EXPECT_EQ(refused.exit_code, 0) << refused.log;
}

TEST_F(SandboxLinksTest, AnXdpLinkAsksWhetherItsDeviceIsOn) {
  const NetNamespace network;
  if (!network) GTEST_SKIP() << "makes a network namespace: needs root";
  ASSERT_TRUE(NetNamespace::ip("link add near type veth peer name far"));
  ASSERT_TRUE(NetNamespace::ip("link set far up"));
  const PacketSocket far("far");
  open(LinkKind::kXdp, "near");
  Administrator administrator([] { return NetNamespace::ip("link set near up"); });
  const Outcome outcome = confined(kXdpNeeds, [&] {
    loop_->turn(Duration{0});
    if (!link_->trouble().starts_with("the device is switched off") || !administrator.ask()) return 1;
    if (!comes_up() || !goes_out()) return 2;
    if (!turn_until([&] { return !far.get().empty(); })) return 3;
    if (!far.put(frame_of(60, 2)) || !comes_in()) return 4;
    return sandbox::refused_calls() == 0 ? 0 : 5;
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.log;
}

}  // namespace
}  // namespace pvrdma::daemon
