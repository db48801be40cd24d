// Tests that links allocate no memory while they carry frames.
#include <array>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unix_listener.h"
#include "support/counted_new.h"
#include "support/manual_clock.h"
#include "support/net_namespace.h"
#include "transport/roce/link_fixture.h"

namespace pvrdma::transport::roce {
namespace {

using pvrdma::roce::kFrameBytesMax;
using test::must;
using test::NetNamespace;

struct CountingHandler final : FrameHandler {
  std::uint64_t frames = 0;
  std::uint64_t rooms = 0;
  void on_frame(std::span<const std::byte> /*frame*/, Instant /*now*/) override { ++frames; }
  void on_burst_end(Instant /*now*/) override {}
  void on_room(Instant /*now*/) override { ++rooms; }
};

class LinkMemoryTest : public testing::Test {
 protected:
  // A log line would allocate memory while the test counts.
  LinkMemoryTest() { log::set_level(log::Level::kError); }

  std::unique_ptr<Link> open(LinkKind kind, const std::string& name, FrameHandler& handler) {
    auto link = must(open_link({kind, name}, *loop_, clock_, handler));
    if (!turn_until(*loop_, [&] { return link->is_up(); })) throw std::runtime_error(link->trouble());
    return link;
  }

  // Counts the allocations while `from` sends, until `to` has received enough. Calls `step` after each burst.
  template <typename Step>
  std::uint64_t allocated(Link& from, const CountingHandler& to, Step step) {
    const Bytes shorter = frame_of(100, 1);
    const Bytes longest = frame_of(kFrameBytesMax, 2);
    test::start_counting_allocations();
    EXPECT_TRUE(turn_until(*loop_, [&] {
      for (int i = 0; i < 8; ++i) send(from, i % 2 == 0 ? shorter : longest);
      from.flush(clock_.now());
      step();
      return to.frames >= 10'000;
    }));
    return test::stop_counting_allocations();
  }

  const test::ManualClock clock_;
  const std::unique_ptr<shard::Loop> loop_ = must(shard::Loop::create({}, clock_));
  CountingHandler near_;
  CountingHandler far_;
};

TEST_F(LinkMemoryTest, AStreamTakesNone) {
  const std::string path = testing::TempDir() + "link_memory_test_" + std::to_string(::getpid());
  const auto listener = must(UnixListener::listen(path, {.what = "test socket", .mode = 0600, .backlog = 1}));
  const auto link = open(LinkKind::kStream, path, near_);
  const Fd peer(::accept4(listener->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  std::array<std::byte, 65536> bytes;
  std::size_t head = 0;
  std::size_t tail = 0;
  EXPECT_EQ(allocated(*link, near_,
                      [&] {  // sends the frames back once the link has been full
                        if (link->counters().link_full == 0) return;
                        if (head == tail) {
                          const ssize_t got = ::recv(peer.get(), bytes.data(), bytes.size(), 0);
                          head = 0;
                          tail = got > 0 ? static_cast<std::size_t>(got) : 0;
                        }
                        const ssize_t sent =
                            ::send(peer.get(), bytes.data() + head, tail - head, MSG_NOSIGNAL);
                        if (sent > 0) head += static_cast<std::size_t>(sent);
                      }),
            0U);
}

TEST_F(LinkMemoryTest, TapsTakeNone) {
  const NetNamespace network;
  if (!network) GTEST_SKIP() << "makes a network namespace: needs root";
  ASSERT_TRUE(NetNamespace::ip("link add bridge mtu 9000 type bridge"));
  ASSERT_TRUE(NetNamespace::ip("link set bridge up"));
  for (const char* tap : {"near", "far"}) {
    if (!NetNamespace::ip(std::string("tuntap add mode tap ") + tap))
      GTEST_SKIP() << "this machine has no /dev/net/tun";
    ASSERT_TRUE(NetNamespace::ip(std::string("link set mtu 9000 master bridge up ") + tap));
    // The frames of this test have the same source and destination, so the bridge must not learn.
    ASSERT_TRUE(NetNamespace::ip("link set dev " + std::string(tap) + " type bridge_slave learning off"));
  }
  const auto near = open(LinkKind::kTap, "near", near_);
  const auto far = open(LinkKind::kTap, "far", far_);
  EXPECT_EQ(allocated(*near, far_, [] {}), 0U);
}

TEST_F(LinkMemoryTest, XdpLinksTakeNone) {
  const NetNamespace network;
  if (!network) GTEST_SKIP() << "makes a network namespace: needs root";
  ASSERT_TRUE(NetNamespace::ip("link add near mtu 9000 type veth peer name far mtu 9000"));
  ASSERT_TRUE(NetNamespace::ip("link set near up"));
  ASSERT_TRUE(NetNamespace::ip("link set far up"));
  const auto near = open(LinkKind::kXdp, "near", near_);
  const auto far = open(LinkKind::kXdp, "far", far_);
  EXPECT_EQ(allocated(*near, far_, [] {}), 0U);
}

}  // namespace
}  // namespace pvrdma::transport::roce
