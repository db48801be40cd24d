#include "adapters/native_links.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace pvrdma::adapters {
namespace {

constexpr transport::SegmentId kOwn{};
constexpr transport::SegmentId kSegment{3, 105};

NativeLinks with_both() {
  return NativeLinks({{.link = {LinkKind::kTap, "own0"}},
                      {.link = {LinkKind::kXdp, "veth7"}, .dvs = "DSwitch", .vlan = 105},
                      {.link = {LinkKind::kStream, "/run/hub.sock"}, .dvs = "Other"}});
}

TEST(NativeLinks, SayWhatTheConfigurationLacks) {
  NativeLinks links = with_both();
  EXPECT_EQ(links.access_of(kOwn, true, 1024).why_not, "");
  EXPECT_EQ(links.access_of(kOwn, true, 1024).link.name, "own0");
  EXPECT_EQ(links.access_of(kOwn, true, 1024).mtu_bytes, 1024U);
  EXPECT_EQ(links.access_of(kSegment, true, 1024).why_not, "its port group does not allow them");
  EXPECT_FALSE(links.allows(kSegment));
  links.set_cluster({{"DSwitch", 3}}, {{kSegment, {}}, {{4, 0}, {}}});
  EXPECT_TRUE(links.allows(kSegment));
  EXPECT_EQ(links.access_of(kSegment, true, 4096).link, (LinkName{LinkKind::kXdp, "veth7"}));
  EXPECT_EQ(links.access_of(kSegment, false, 4096).why_not,
            "with the profile esxi they need hardware version 18");
  EXPECT_EQ(links.access_of({4, 0}, true, 1024).why_not,
            "this host's configuration has no [[roce]] with its switch and VLAN");
  links.set_cluster({{"DSwitch", 3}, {"Other", 4}}, {{{4, 0}, {}}});
  EXPECT_EQ(links.access_of({4, 0}, true, 1024).link.name, "/run/hub.sock");
  EXPECT_EQ(links.access_of(kSegment, true, 1024).why_not, "its port group does not allow them");
  links.set_cluster({}, {{kSegment, {}}});
  EXPECT_EQ(links.access_of(kSegment, true, 1024).why_not,
            "this host's configuration has no [[roce]] with its switch and VLAN");
  EXPECT_EQ(links.access_of(kOwn, true, 1024).why_not, "");
  EXPECT_EQ(NativeLinks({}).access_of(kOwn, true, 1024).why_not,
            "this host's configuration has no [[roce]] for adapters outside a cluster");
  EXPECT_EQ(describe(NativeLinks({}).access_of(kOwn, true, 1024)),
            "off: this host's configuration has no [[roce]] for adapters outside a cluster");
}

TEST(NativeLinks, SayWhatTheDeviceLacks) {
  namespace fs = std::filesystem;
  const std::string sysfs = testing::TempDir() + "native_links_test_" + std::to_string(::getpid());
  const std::string folder = sysfs + "/class/net/pvroce0";
  const auto trouble = [&](std::uint32_t mtu_bytes) {
    return device_trouble({{}, {LinkKind::kTap, "pvroce0"}, mtu_bytes}, sysfs);
  };
  const auto device = [&](const char* flags, const char* mtu) {
    std::ofstream(folder + "/flags") << flags << "\n";
    std::ofstream(folder + "/mtu") << mtu << "\n";
  };
  EXPECT_EQ(
      trouble(1024),
      "this host has no network device pvroce0: pvrdmactl dvs roce-rules prints the commands that make it");
  fs::create_directories(folder);
  device("0x1002", "1500");
  EXPECT_EQ(trouble(1024), "the network device pvroce0 is down: ip link set dev pvroce0 up");
  device("0x1003", "1500");
  EXPECT_EQ(trouble(1024), "");
  EXPECT_EQ(trouble(4096),
            "the network device pvroce0 has MTU 1500, and packets of 4096 bytes need 4192: ip link set dev "
            "pvroce0 mtu "
            "4192");
  device("0x1003", "4192");
  EXPECT_EQ(trouble(4096), "");
  EXPECT_EQ(device_trouble({{}, {LinkKind::kStream, "/run/hub.sock"}, 4096}, sysfs), "");
  EXPECT_EQ(describe({{}, {LinkKind::kTap, "lo"}, 4096}), "on");
  EXPECT_EQ(describe({{}, {LinkKind::kTap, "lo"}, 4096}, "it is no tap"),
            "off: tap:lo is down: it is no tap");
  fs::remove_all(sysfs);
}

}  // namespace
}  // namespace pvrdma::adapters
