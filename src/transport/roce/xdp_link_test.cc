#include "transport/roce/xdp_link.h"

#include <cerrno>
#include <gmock/gmock.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "support/net_namespace.h"
#include "transport/roce/link_fixture.h"
#include "transport/roce/packet_socket_fixture.h"

namespace pvrdma::transport::roce {
namespace {

using pvrdma::roce::kFrameBytesMax;
using test::code_of;
using test::must;
using test::NetNamespace;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Le;

// One end of a veth pair; "far" is the other.
constexpr char kDevice[] = "near";

class XdpLinkTest : public LinkTest {
 protected:
  void SetUp() override {
    if (!network_) GTEST_SKIP() << "makes a network namespace: needs root";
    make_devices(9000);
  }

  static void make_devices(int mtu) {
    const std::string text = " mtu " + std::to_string(mtu);
    ASSERT_TRUE(NetNamespace::ip("link add near" + text + " type veth peer name far" + text));
    ASSERT_TRUE(NetNamespace::ip("link set near up"));
    ASSERT_TRUE(NetNamespace::ip("link set far up"));
  }
  Result<std::unique_ptr<Link>> try_open() {
    return open_link({LinkKind::kXdp, kDevice}, *loop_, clock_, handler_);
  }
  void open() {
    auto link = try_open();
    if (!link && link.error().code == EAFNOSUPPORT) GTEST_SKIP() << "this kernel has no AF_XDP sockets";
    link_ = must(std::move(link));
    ASSERT_TRUE(up(*link_)) << link_->trouble();
  }

  // A frame of `bytes` bytes, from the Ethernet header on, in one of RoCE's encapsulations.
  static Bytes of_type(int type, std::size_t bytes, bool tagged) {
    Bytes frame(bytes, std::byte{1});
    std::size_t at = 12;
    const auto put = [&](int value) {
      frame[at++] = std::byte(value >> 8);
      frame[at++] = std::byte(value & 0xff);
    };
    if (tagged) {
      put(0x8100);
      put(105);
    }
    put(type);
    if (type == 0x0800) {
      frame[at] = std::byte{0x45};
      frame[at + 9] = std::byte{17};
      at += 22;
      put(4791);
    } else if (type == 0x86dd) {
      frame[at + 6] = std::byte{17};
      at += 42;
      put(4791);
    }
    return frame;
  }

  const NetNamespace network_;
  std::unique_ptr<Link> link_;
};

TEST_F(XdpLinkTest, CarriesFramesBothWays) {
  open();
  EXPECT_EQ(link_->what(), "xdp:near");
  EXPECT_EQ(handler_.rooms, 0);
  const PacketSocket far("far");
  for (const std::size_t bytes : {std::size_t{60}, std::size_t{4096}, std::size_t{4097}, kFrameBytesMax}) {
    ASSERT_TRUE(send(*link_, frame_of(bytes, 5)));
    link_->flush(clock_.now());
    Bytes came;
    ASSERT_TRUE(turn_until([&] { return !(came = far.get()).empty(); })) << bytes;
    EXPECT_EQ(came, frame_of(bytes, 5));
    ASSERT_TRUE(far.put(frame_of(bytes, 6)));
    ASSERT_TRUE(turn_until([&] { return !handler_.frames.empty(); })) << bytes;
    EXPECT_THAT(handler_.frames, ElementsAre(frame_of(bytes, 6)));
    handler_.frames.clear();
  }
  EXPECT_EQ(link_->counters().sent_pkts, 4U);
  EXPECT_EQ(link_->counters().rcvd_pkts, 4U);
  EXPECT_EQ(link_->counters().sent_bytes, 60 + 4096 + 4097 + kFrameBytesMax);
  EXPECT_EQ(link_->counters().rcvd_bytes, 60 + 4096 + 4097 + kFrameBytesMax);
}

TEST_F(XdpLinkTest, LetsFramesOfALongTurnGoBeforeItsEnd) {
  open();
  const PacketSocket far("far");
  link_->flush(clock_.now());
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(send(*link_, frame_of(60, 5)));
  EXPECT_TRUE(turn_until([&] { return far.get() == frame_of(60, 5); }));
}

TEST_F(XdpLinkTest, TakesRoceFramesAndLeavesTheKernelAllOthers) {
  open();
  const PacketSocket near("near");  // sees what the program passes on
  const PacketSocket far("far");
  for (const bool tagged : {false, true}) {
    for (const int type : {0x0800, 0x86dd, 0x8915}) {
      const Bytes roce = of_type(type, 90, tagged);
      ASSERT_TRUE(far.put(roce));
      ASSERT_TRUE(turn_until([&] { return !handler_.frames.empty(); })) << type << tagged;
      EXPECT_THAT(handler_.frames, ElementsAre(roce));
      handler_.frames.clear();
    }
  }
  std::vector<Bytes> others;
  for (const bool tagged : {false, true}) {
    const std::size_t ip = tagged ? 18 : 14;
    others.push_back(of_type(0x0806, 90, tagged));  // ARP
    for (const int type : {0x0800, 0x86dd}) {
      const std::size_t port = ip + (type == 0x0800 ? 22 : 42);
      others.push_back(of_type(type, 90, tagged));
      others.back()[port + 1] = std::byte{0xb6};  // UDP port 4790
      others.push_back(of_type(type, 90, tagged));
      others.back()[ip + (type == 0x0800 ? 9 : 6)] = std::byte{6};  // TCP
      others.push_back(of_type(type, 90, tagged));
      others.back().resize(port + 1);  // truncated within the port
    }
    others.push_back(of_type(0x0800, 90, tagged));
    others.back()[ip] = std::byte{0x46};  // an IPv4 header with options
  }
  for (const Bytes& other : others) ASSERT_TRUE(far.put(other));
  ASSERT_TRUE(far.put(frame_of(60, 7)));
  ASSERT_TRUE(turn_until([&] { return !handler_.frames.empty(); }));
  EXPECT_THAT(handler_.frames, ElementsAre(frame_of(60, 7)));
  std::size_t left = 0;
  EXPECT_TRUE(turn_until([&] {
    while (!near.get().empty()) ++left;
    return left == others.size();
  })) << left;
}

TEST_F(XdpLinkTest, AFloodComesInBurstsOneInATurn) {
  open();
  const PacketSocket far("far");
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(far.put(frame_of(60, static_cast<std::uint8_t>(i))));
  ASSERT_TRUE(turn_until([&] {
    const std::size_t before = handler_.frames.size();
    loop_->turn(Duration{0});
    EXPECT_LE(handler_.frames.size(), before + kBurst);
    return handler_.frames.size() >= 300;
  }));
  EXPECT_THAT(handler_.bursts, Each(Le(kBurst)));
  EXPECT_EQ(handler_.frames.back(), frame_of(60, static_cast<std::uint8_t>(299)));
}

TEST_F(XdpLinkTest, GoesOnAfterEveryChunkAndSlotWasUsedOften) {
  open();
  const PacketSocket far("far");
  constexpr std::size_t kFrames = 3 * XdpSocket::kReceiveChunks;
  std::size_t came = 0;
  for (std::size_t i = 0; i < kFrames; ++i) {
    // Short and long frames in turn, so that slots are reused for both.
    const Bytes frame = frame_of(i % 3 == 0 ? 4150 : 100 + i % 1000, static_cast<std::uint8_t>(i));
    ASSERT_TRUE(turn_until([&] { return link_->room() != 0 && send(*link_, frame); }));
    link_->flush(clock_.now());
    Bytes out;
    ASSERT_TRUE(turn_until([&] { return !(out = far.get()).empty(); }));
    ASSERT_EQ(out, frame) << i;
    ASSERT_TRUE(far.put(frame));
    ASSERT_TRUE(turn_until([&] { return handler_.frames.size() == 1; }));
    ASSERT_EQ(handler_.frames.front(), frame) << i;
    handler_.frames.clear();
    ++came;
  }
  EXPECT_EQ(link_->counters().sent_pkts, came);
  EXPECT_EQ(link_->counters().rcvd_pkts, came);
}

TEST_F(XdpLinkTest, IsFullWhenAllSlotsAreInUseAndTellsOfRoom) {
  open();
  ASSERT_TRUE(turn_until([&] { return handler_.rooms == 1; }));
  std::size_t sent = 0;
  while (send(*link_, frame_of(60, 1))) ++sent;
  EXPECT_GE(sent, XdpSocket::kSlots);
  EXPECT_LE(sent, 2 * XdpSocket::kSlots) << "without a flush no more than that many leave";
  EXPECT_EQ(link_->room(), 0U);
  EXPECT_EQ(link_->counters().link_full, 1U);
  EXPECT_EQ(handler_.rooms, 1);
  link_->flush(clock_.now());
  EXPECT_TRUE(turn_until([&] { return handler_.rooms == 2; }));
  EXPECT_NE(link_->place(), nullptr);
}

TEST_F(XdpLinkTest, DropsFramesThatAreTooLong) {
  open();
  const PacketSocket far("far");
  ASSERT_TRUE(far.put(frame_of(kFrameBytesMax + 1, 1)));
  ASSERT_TRUE(far.put(frame_of(9000, 1)));
  ASSERT_TRUE(far.put(frame_of(kFrameBytesMax, 2)));
  ASSERT_TRUE(turn_until([&] { return !handler_.frames.empty(); }));
  EXPECT_THAT(handler_.frames, ElementsAre(frame_of(kFrameBytesMax, 2)));
  EXPECT_EQ(link_->counters().rcvd_bad_length, 2U);
}

TEST_F(XdpLinkTest, OnADeviceOfShortFramesLongOnesAreErrors) {
  ASSERT_TRUE(NetNamespace::ip("link delete near"));
  make_devices(1500);
  open();
  ASSERT_TRUE(send(*link_, frame_of(kFrameBytesMax, 1)));
  EXPECT_EQ(link_->counters().send_errors, 1U);
  ASSERT_TRUE(send(*link_, frame_of(1514, 2)));
  link_->flush(clock_.now());
  const PacketSocket far("far");
  ASSERT_TRUE(far.put(frame_of(1514, 3)));
  ASSERT_TRUE(turn_until([&] { return !handler_.frames.empty(); }));
  EXPECT_THAT(handler_.frames, ElementsAre(frame_of(1514, 3)));
}

TEST_F(XdpLinkTest, WaitsForTheDeviceToBeSwitchedOn) {
  ASSERT_TRUE(NetNamespace::ip("link set near down"));
  link_ = must(try_open());
  loop_->turn(Duration{0});
  EXPECT_THAT(link_->trouble(), HasSubstr("switched off"));
  EXPECT_EQ(link_->place(), nullptr);
  ASSERT_TRUE(NetNamespace::ip("link set near up"));
  ASSERT_TRUE(turn_until([&] { return handler_.rooms == 1; })) << link_->trouble();

  ASSERT_TRUE(NetNamespace::ip("link set near down"));
  ASSERT_TRUE(send(*link_, frame_of(60, 1)));
  link_->flush(clock_.now());
  EXPECT_THAT(link_->trouble(), HasSubstr("switched off"));
  ASSERT_TRUE(NetNamespace::ip("link set near up"));
  ASSERT_TRUE(up(*link_)) << link_->trouble();
  const PacketSocket far("far");
  ASSERT_TRUE(turn_until([&] {
    EXPECT_TRUE(far.put(frame_of(60, 2)));
    return !handler_.frames.empty();
  }));
}

TEST_F(XdpLinkTest, SaysThatTheDeviceHasGone) {
  open();
  ASSERT_TRUE(NetNamespace::ip("link delete near"));
  ASSERT_TRUE(send(*link_, frame_of(60, 1)));
  link_->flush(clock_.now());
  EXPECT_EQ(link_->trouble(), "the device was removed: restart the daemon when it is back");
  EXPECT_EQ(link_->place(), nullptr);
  EXPECT_FALSE(loop_->turn(Duration{0})) << "and rests";
}

TEST_F(XdpLinkTest, LeavesTheDeviceWhenItEnds) {
  open();
  EXPECT_EQ(code_of(try_open()), EBUSY);
  link_.reset();
  open();
}

TEST_F(XdpLinkTest, NeedsADeviceOfOneReceiveQueue) {
  ASSERT_TRUE(NetNamespace::ip(
      "link add twin numrxqueues 2 numtxqueues 2 type veth peer name nit numrxqueues 2 numtxqueues 2"));
  const auto link = open_link({LinkKind::kXdp, "twin"}, *loop_, clock_, handler_);
  ASSERT_EQ(code_of(link), EINVAL);
  EXPECT_EQ(link.error().message,
            "RoCE link xdp:twin: the device has 2 receive queues, but the link reads only one: "
            "ethtool -L twin combined 1");
  EXPECT_EQ(code_of(open_link({LinkKind::kXdp, "nothing"}, *loop_, clock_, handler_)), ENODEV);
}

// The process lacks one capability, as with a unit's CapabilityBoundingSet.
TEST_F(XdpLinkTest, NamesTheRightsThatItNeeds) {
  const auto without = [&](int capability) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
      __user_cap_data_struct data[2]{};
      ::syscall(SYS_capget, &head, data);
      for (const auto set : {&__user_cap_data_struct::effective, &__user_cap_data_struct::permitted}) {
        data[capability / 32].*set &= ~(1U << (capability % 32));
        data[CAP_SYS_ADMIN / 32].*set &= ~(1U << (CAP_SYS_ADMIN % 32));
      }
      const long set = ::syscall(SYS_capset, &head, data);
      const auto link = try_open();
      const std::string said = set != 0 ? "capset" : link ? "nothing" : link.error().message;
      static_cast<void>(::write(ends[1], said.data(), said.size()));
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string said(400, '\0');
    const ssize_t got = ::read(ends[0], said.data(), said.size());
    said.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return said;
  };
  EXPECT_EQ(without(CAP_NET_RAW),
            "RoCE link xdp:near: cannot make an AF_XDP socket: not permitted: give the daemon CAP_NET_RAW");
  EXPECT_THAT(without(CAP_NET_ADMIN), HasSubstr("not permitted: give the daemon CAP_NET_ADMIN and CAP_BPF"));
  EXPECT_THAT(without(CAP_BPF), HasSubstr("not permitted: give the daemon CAP_NET_ADMIN and CAP_BPF"));
}

}  // namespace
}  // namespace pvrdma::transport::roce
