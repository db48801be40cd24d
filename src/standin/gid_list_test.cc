#include "standin/gid_list.h"

#include <gtest/gtest.h>

namespace pvrdma::standin {
namespace {

const abi::Mac kMac{{0x52, 0x54, 0x00, 0xc1, 0x00, 0x07}};

TEST(GidListTest, LinkLocalGidAndBack) {
  const abi::Gid gid = link_local_gid(kMac);
  EXPECT_EQ(gid.raw, (std::array<std::uint8_t, 16>{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0x00, 0xff, 0xfe,
                                                   0xc1, 0x00, 0x07}));
  EXPECT_EQ(mac_of_link_local(gid), kMac);
}

TEST(GidListTest, Ipv4AddressIsMapped) {
  const abi::Gid gid = gid_of(*IpAddress::parse("10.99.0.1"));
  EXPECT_EQ(gid.raw, (std::array<std::uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0, 1}));
  EXPECT_EQ(mac_of_link_local(gid), std::nullopt);
}

TEST(GidListTest, Ipv6AddressIsItself) {
  EXPECT_EQ(gid_of(*IpAddress::parse("fd00::5")).raw[15], 5);
}

}  // namespace
}  // namespace pvrdma::standin
