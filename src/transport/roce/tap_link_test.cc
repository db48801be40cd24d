#include "transport/roce/tap_link.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include "support/net_namespace.h"
#include "transport/roce/link_fixture.h"
#include "transport/roce/packet_socket_fixture.h"

namespace pvrdma::transport::roce {
namespace {

using pvrdma::roce::kFrameBytesMax;
using test::must;
using test::NetNamespace;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Le;

constexpr char kDevice[] = "pvroce0";

class TapLinkTest : public LinkTest {
 protected:
  void SetUp() override {
    if (!network_) GTEST_SKIP() << "makes a network namespace: needs root";
    if (!NetNamespace::ip("tuntap add probe mode tap")) GTEST_SKIP() << "this machine has no /dev/net/tun";
    link_ = must(open_link({LinkKind::kTap, kDevice}, *loop_, clock_, handler_));
  }

  static void make_device() {
    ASSERT_TRUE(NetNamespace::ip("tuntap add pvroce0 mode tap"));
    ASSERT_TRUE(NetNamespace::ip("link set pvroce0 mtu 9000 up"));
  }
  const NetNamespace network_;
  std::unique_ptr<Link> link_;
};

TEST_F(TapLinkTest, CarriesFramesBothWays) {
  make_device();
  ASSERT_TRUE(up(*link_)) << link_->trouble();
  EXPECT_EQ(link_->what(), "tap:pvroce0");
  EXPECT_EQ(link_->trouble(), "");
  EXPECT_EQ(link_->mtu_bytes(), 9000U);
  const PacketSocket bridge(kDevice);
  for (const std::size_t bytes : {std::size_t{14}, std::size_t{62}, kFrameBytesMax}) {
    ASSERT_TRUE(send(*link_, frame_of(bytes, 5)));
    link_->flush(clock_.now());
    EXPECT_EQ(bridge.get(), frame_of(bytes, 5));
    ASSERT_TRUE(bridge.put(frame_of(bytes, 6)));
    ASSERT_TRUE(turn_until([&] { return !handler_.frames.empty(); }));
    EXPECT_THAT(handler_.frames, ElementsAre(frame_of(bytes, 6)));
    handler_.frames.clear();
  }
  EXPECT_EQ(link_->counters().sent_pkts, 3U);
  EXPECT_EQ(link_->counters().rcvd_pkts, 3U);
  EXPECT_EQ(link_->counters().sent_bytes, 14U + 62 + kFrameBytesMax);
  EXPECT_EQ(link_->counters().rcvd_bytes, 14U + 62 + kFrameBytesMax);
}

TEST_F(TapLinkTest, AFloodComesInBurstsOneInATurn) {
  make_device();
  ASSERT_TRUE(up(*link_)) << link_->trouble();
  const PacketSocket bridge(kDevice);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(bridge.put(frame_of(60, static_cast<std::uint8_t>(i))));
  while (handler_.frames.size() < 300) {
    const std::size_t before = handler_.frames.size();
    ASSERT_TRUE(loop_->turn(Duration{0}));
    ASSERT_LE(handler_.frames.size(), before + kBurst);
  }
  EXPECT_THAT(handler_.bursts, Each(Le(kBurst)));
  EXPECT_EQ(handler_.frames.back(), frame_of(60, static_cast<std::uint8_t>(299)));
}

TEST_F(TapLinkTest, DropsFramesThatAreTooLong) {
  make_device();
  ASSERT_TRUE(up(*link_)) << link_->trouble();
  const PacketSocket bridge(kDevice);
  ASSERT_TRUE(bridge.put(frame_of(kFrameBytesMax + 1, 1)));
  ASSERT_TRUE(bridge.put(frame_of(9014, 1)));
  ASSERT_TRUE(bridge.put(frame_of(100, 2)));
  ASSERT_TRUE(turn_until([&] { return !handler_.frames.empty(); }));
  EXPECT_THAT(handler_.frames, ElementsAre(frame_of(100, 2)));
  EXPECT_EQ(link_->counters().rcvd_bad_length, 2U);
}

TEST_F(TapLinkTest, WaitsForADeviceAndForItToBeSwitchedOn) {
  loop_->turn(Duration{0});
  EXPECT_THAT(link_->trouble(), HasSubstr("there is no such device: create it, or name another device"));
  EXPECT_EQ(link_->place(), nullptr);
  EXPECT_EQ(::if_nametoindex(kDevice), 0U) << "it makes none itself, though it could";
  ASSERT_TRUE(NetNamespace::ip("tuntap add pvroce0 mode tap"));
  ASSERT_TRUE(turn_until([&] { return link_->trouble().starts_with("the device is switched off"); }))
      << link_->trouble();
  EXPECT_FALSE(link_->is_up());
  EXPECT_EQ(handler_.rooms, 0);
  ASSERT_TRUE(NetNamespace::ip("link set pvroce0 up"));
  ASSERT_TRUE(turn_until([&] { return handler_.rooms == 1; })) << link_->trouble();
  EXPECT_TRUE(link_->is_up());
}

TEST_F(TapLinkTest, NoticesThatTheDeviceIsSwitchedOffAndGoesOnWhenItIsOnAgain) {
  make_device();
  ASSERT_TRUE(up(*link_)) << link_->trouble();
  ASSERT_TRUE(NetNamespace::ip("link set pvroce0 down"));
  ASSERT_TRUE(send(*link_, frame_of(60, 1)));
  EXPECT_EQ(link_->counters().send_errors, 1U);
  EXPECT_FALSE(link_->is_up());
  EXPECT_THAT(link_->trouble(), HasSubstr("switched off"));
  ASSERT_TRUE(NetNamespace::ip("link set pvroce0 up"));
  ASSERT_TRUE(up(*link_)) << link_->trouble();
  const PacketSocket bridge(kDevice);
  ASSERT_TRUE(send(*link_, frame_of(60, 2)));
  EXPECT_EQ(bridge.get(), frame_of(60, 2));
}

TEST_F(TapLinkTest, TakesADeviceThatWasMadeAnew) {
  make_device();
  ASSERT_TRUE(up(*link_)) << link_->trouble();
  ASSERT_TRUE(NetNamespace::ip("link delete pvroce0"));
  ASSERT_TRUE(turn_until([&] { return !link_->is_up(); }));
  EXPECT_THAT(link_->trouble(), HasSubstr("the device was removed"));
  make_device();
  ASSERT_TRUE(up(*link_)) << link_->trouble();
  EXPECT_EQ(link_->counters().ups, 2U);
  const PacketSocket bridge(kDevice);
  ASSERT_TRUE(send(*link_, frame_of(60, 3)));
  EXPECT_EQ(bridge.get(), frame_of(60, 3));
  ASSERT_TRUE(bridge.put(frame_of(70, 4)));
  ASSERT_TRUE(turn_until([&] { return !handler_.frames.empty(); }));
  EXPECT_EQ(handler_.frames.front(), frame_of(70, 4));
}

TEST_F(TapLinkTest, SaysWhoElseHasTheDevice) {
  make_device();
  const Fd other(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  ifreq request{};
  std::string(kDevice).copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  ASSERT_EQ(::ioctl(other.get(), TUNSETIFF, &request), 0);
  loop_->turn(Duration{0});
  EXPECT_THAT(link_->trouble(), HasSubstr("another program uses the device"));
}

TEST_F(TapLinkTest, SaysThatADeviceIsNoTap) {
  ASSERT_TRUE(NetNamespace::ip("link add pvroce0 type veth peer name other"));
  loop_->turn(Duration{0});
  EXPECT_THAT(link_->trouble(), HasSubstr("the device is not a tap"));
}

}  // namespace
}  // namespace pvrdma::transport::roce
