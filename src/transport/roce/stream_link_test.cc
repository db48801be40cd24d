#include "transport/roce/stream_link.h"

#include <cerrno>
#include <cstring>
#include <endian.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include "base/unix_listener.h"
#include "transport/roce/link_fixture.h"

namespace pvrdma::transport::roce {
namespace {

using pvrdma::roce::kFrameBytesMax;
using test::must;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Le;

class StreamLinkTest : public LinkTest {
 protected:
  void SetUp() override {
    listen();
    link_ = must(open_link({LinkKind::kStream, path_}, *loop_, clock_, handler_));
  }

  void listen() {
    listener_ = must(UnixListener::listen(path_, {.what = "test socket", .mode = 0600, .backlog = 4}));
  }
  // Accepts the other end of the link once the link is up.
  Fd accept() {
    if (!up(*link_)) throw std::runtime_error("the link does not come up: " + link_->trouble());
    return Fd(::accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }

  static Bytes framed(const Bytes& frame) {
    Bytes all(4 + frame.size());
    const std::uint32_t length = htobe32(static_cast<std::uint32_t>(frame.size()));
    std::memcpy(all.data(), &length, sizeof(length));
    std::copy(frame.begin(), frame.end(), all.begin() + 4);
    return all;
  }
  // Writes all bytes while the link reads.
  bool put(const Fd& peer, const Bytes& bytes) {
    std::size_t put = 0;
    return turn_until([&] {
      const ssize_t sent = ::send(peer.get(), bytes.data() + put, bytes.size() - put, MSG_NOSIGNAL);
      if (sent > 0) put += static_cast<std::size_t>(sent);
      return put == bytes.size();
    });
  }
  // Reads what has arrived.
  static Bytes get(const Fd& peer) {
    Bytes bytes(1 << 20);
    const ssize_t got = ::recv(peer.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }

  const std::string path_ = testing::TempDir() + "stream_link_test_" + std::to_string(::getpid());
  std::unique_ptr<UnixListener> listener_;
  std::unique_ptr<Link> link_;
};

TEST_F(StreamLinkTest, SendsEachFrameAfterItsLength) {
  const Fd peer = accept();
  ASSERT_TRUE(send(*link_, frame_of(14, 1)));
  ASSERT_TRUE(send(*link_, frame_of(kFrameBytesMax, 2)));
  EXPECT_TRUE(get(peer).empty()) << "goes out at flush()";
  link_->flush(clock_.now());
  Bytes both = framed(frame_of(14, 1));
  const Bytes second = framed(frame_of(kFrameBytesMax, 2));
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(get(peer), both);
  EXPECT_EQ(link_->counters().sent_pkts, 2U);
  EXPECT_EQ(link_->counters().sent_bytes, 14 + kFrameBytesMax);
}

TEST_F(StreamLinkTest, HandsFramesOverHoweverTheyAreCut) {
  const Fd peer = accept();
  const Bytes shortest = framed(frame_of(14, 1));
  const Bytes longest = framed(frame_of(kFrameBytesMax, 2));
  for (const std::byte byte : shortest) ASSERT_TRUE(put(peer, {byte}));
  ASSERT_TRUE(put(peer, {longest.begin(), longest.begin() + 3}));
  ASSERT_TRUE(turn_until([&] { return handler_.frames.size() == 1; }));
  ASSERT_TRUE(put(peer, {longest.begin() + 3, longest.end() - 1}));
  loop_->turn(std::chrono::milliseconds(1));
  EXPECT_EQ(handler_.frames.size(), 1U);
  ASSERT_TRUE(put(peer, {longest.end() - 1, longest.end()}));
  ASSERT_TRUE(turn_until([&] { return handler_.frames.size() == 2; }));
  EXPECT_THAT(handler_.frames, ElementsAre(frame_of(14, 1), frame_of(kFrameBytesMax, 2)));
  EXPECT_THAT(handler_.bursts, ElementsAre(1, 1));
  EXPECT_EQ(link_->counters().rcvd_pkts, 2U);
  EXPECT_EQ(link_->counters().rcvd_bytes, 14 + kFrameBytesMax);
}

TEST_F(StreamLinkTest, AFloodComesInBurstsOneInATurn) {
  const Fd peer = accept();
  Bytes flood;
  for (int i = 0; i < 1000; ++i) {
    const Bytes each = framed(frame_of(14, static_cast<std::uint8_t>(i)));
    flood.insert(flood.end(), each.begin(), each.end());
  }
  ASSERT_TRUE(put(peer, flood));
  std::size_t before = handler_.frames.size();
  while (before < 1000) {
    loop_->turn(Duration{0});  // the socket is empty by now and does not trigger this turn
    ASSERT_LE(handler_.frames.size(), before + kBurst);
    ASSERT_GT(handler_.frames.size(), before);
    before = handler_.frames.size();
  }
  EXPECT_THAT(handler_.bursts, Each(Le(kBurst)));
  EXPECT_EQ(handler_.frames.back(), frame_of(14, static_cast<std::uint8_t>(999)));
}

TEST_F(StreamLinkTest, SkipsFramesOfOtherLengths) {
  const Fd peer = accept();
  const std::size_t others[] = {0, 13, kFrameBytesMax + 1, 69632};
  for (const std::size_t bytes : others) {
    Bytes frame(4 + bytes, std::byte{0xff});
    const std::uint32_t length = htobe32(static_cast<std::uint32_t>(bytes));
    std::memcpy(frame.data(), &length, sizeof(length));
    ASSERT_TRUE(put(peer, frame));
    ASSERT_TRUE(put(peer, framed(frame_of(100, 7))));
  }
  ASSERT_TRUE(turn_until([&] { return handler_.frames.size() == std::size(others); }));
  EXPECT_THAT(handler_.frames, Each(frame_of(100, 7)));
  EXPECT_EQ(link_->counters().rcvd_bad_length, std::size(others));
  EXPECT_TRUE(link_->is_up());
}

TEST_F(StreamLinkTest, ALengthThatNoFrameHasEndsTheConnection) {
  const Fd peer = accept();
  ASSERT_TRUE(put(peer, framed(frame_of(100, 7))));
  ASSERT_TRUE(put(peer, {std::byte{0}, std::byte{1}, std::byte{0x10}, std::byte{1}}));  // 69633
  ASSERT_TRUE(turn_until([&] { return !link_->is_up(); }));
  EXPECT_EQ(link_->trouble(), "its peer does not speak QEMU's -netdev stream protocol");
  EXPECT_EQ(handler_.frames.size(), 1U);
  EXPECT_EQ(link_->place(), nullptr);
  EXPECT_EQ(link_->room(), 0U);
  EXPECT_TRUE(up(*link_)) << "and dials again";
}

TEST_F(StreamLinkTest, IsFullWhileThePeerDoesNotReadAndThenHasRoomAgain) {
  const Fd peer = accept();
  ASSERT_TRUE(turn_until([&] { return handler_.rooms == 1; })) << "as it has come up";
  std::uint64_t placed = 0;
  while (send(*link_, frame_of(kFrameBytesMax, static_cast<std::uint8_t>(placed)))) {
    ++placed;
    link_->flush(clock_.now());
    ASSERT_LT(placed, 10'000U) << "it queues without bound";
  }
  EXPECT_EQ(link_->room(), 0U);
  EXPECT_EQ(link_->counters().link_full, 1U);
  loop_->turn(std::chrono::milliseconds(1));
  EXPECT_EQ(handler_.rooms, 1);
  Bytes all;
  ASSERT_TRUE(turn_until([&] {
    const Bytes some = get(peer);
    all.insert(all.end(), some.begin(), some.end());
    return all.size() == placed * (4 + kFrameBytesMax);
  }));
  for (std::uint64_t i = 0; i < placed; ++i) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(i * (4 + kFrameBytesMax));
    ASSERT_EQ(Bytes(at, at + 4 + kFrameBytesMax),
              framed(frame_of(kFrameBytesMax, static_cast<std::uint8_t>(i))));
  }
  EXPECT_EQ(handler_.rooms, 2);
  EXPECT_NE(link_->place(), nullptr);
  EXPECT_EQ(link_->counters().sent_pkts, placed);
}

TEST_F(StreamLinkTest, TellsOfRoomThatAFlushMade) {
  const Fd peer = accept();
  ASSERT_TRUE(turn_until([&] { return handler_.rooms == 1; }));
  while (send(*link_, frame_of(kFrameBytesMax, 1))) {
  }
  while (link_->room() == 0) {
    link_->flush(clock_.now());
    get(peer);
  }
  EXPECT_TRUE(turn_until([&] { return handler_.rooms == 2; }));
}

TEST_F(StreamLinkTest, DialsAgainWhenThePeerHasGone) {
  Fd peer = accept();
  ASSERT_TRUE(
      put(peer, {std::byte{0}, std::byte{0}}));  // half a length, which must not affect the next connection
  loop_->turn(std::chrono::milliseconds(1));
  ASSERT_TRUE(send(*link_, frame_of(14, 1)));
  listener_.reset();
  peer.reset();
  ASSERT_TRUE(turn_until([&] { return !link_->is_up(); }));
  EXPECT_EQ(link_->trouble(), "its peer has closed the connection");
  ASSERT_TRUE(turn_until([&] { return link_->trouble() != "its peer has closed the connection"; }));
  EXPECT_THAT(link_->trouble(), HasSubstr("cannot connect: No such file"));
  listen();
  peer = accept();
  EXPECT_EQ(link_->trouble(), "");
  EXPECT_EQ(link_->counters().ups, 2U);
  ASSERT_TRUE(turn_until([&] { return handler_.rooms == 2; }));
  ASSERT_TRUE(put(peer, framed(frame_of(20, 3))));
  ASSERT_TRUE(turn_until([&] { return handler_.frames.size() == 1; }));
  EXPECT_EQ(handler_.frames.front(), frame_of(20, 3));
  ASSERT_TRUE(send(*link_, frame_of(15, 4)));
  link_->flush(clock_.now());
  EXPECT_EQ(get(peer), framed(frame_of(15, 4))) << "nothing of the connection before";
}

TEST_F(StreamLinkTest, MayBreakWhileAFrameIsHandled) {
  Fd peer = accept();
  Bytes two = framed(frame_of(50, 1));
  const Bytes second = framed(frame_of(50, 2));
  two.insert(two.end(), second.begin(), second.end());
  handler_.and_then = [&] {
    peer.reset();
    std::byte* const place = link_->place();
    ASSERT_NE(place, nullptr);
    std::fill_n(place, 60, std::byte{1});
    link_->send(60);
    link_->flush(clock_.now());
    link_->place();
    link_->send(60);  // placed before the socket broke
  };
  ASSERT_EQ(::send(peer.get(), two.data(), two.size(), 0), static_cast<ssize_t>(two.size()));
  ASSERT_TRUE(turn_until([&] { return !handler_.frames.empty(); }));
  EXPECT_FALSE(link_->is_up());
  EXPECT_EQ(handler_.frames.front(), frame_of(50, 1));
  EXPECT_THAT(handler_.bursts, ElementsAre(1));
  EXPECT_EQ(link_->counters().send_errors, 1U);
}

TEST_F(StreamLinkTest, NeedsAPathThatFits) {
  const auto link = open_link({LinkKind::kStream, "/" + std::string(200, 'x')}, *loop_, clock_, handler_);
  EXPECT_EQ(test::code_of(link), ENAMETOOLONG);
}

}  // namespace
}  // namespace pvrdma::transport::roce
