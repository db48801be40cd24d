#include "standin/neighbors.h"

#include <gtest/gtest.h>

#include "standin/gid_list.h"

namespace pvrdma::standin {
namespace {

const abi::Mac kPeer{{0x52, 0x54, 0x00, 0xc1, 0x00, 0x07}};
const abi::Mac kRouter{{0x52, 0x54, 0x00, 0xc1, 0x00, 0xfe}};

// 10.99.0.0/24 is on the link; everything else but fd00::/8 is behind a router.
class FakeNetwork final : public HostNetwork {
 public:
  std::optional<NextHop> route_to(const abi::Gid& address) override {
    if (address.raw[0] == 0xfd) return std::nullopt;
    if (address.raw[12] == 10) return NextHop{address, 2, false};
    return NextHop{gid_of(*IpAddress::parse("10.99.0.254")), 2, true};
  }
  std::optional<abi::Mac> mac_of(const NextHop& hop) override {
    const auto found = known.find(hop.address);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  }
  void ask(const NextHop& hop) override { asked.push_back(hop.address); }

  std::map<abi::Gid, abi::Mac> known;
  std::vector<abi::Gid> asked;
};

abi::Gid gid(std::string_view text) {
  return gid_of(*IpAddress::parse(text));
}

class NeighborsTest : public ::testing::Test {
 protected:
  Neighbors make(std::optional<abi::Mac> gateway = std::nullopt) {
    auto network = std::make_unique<FakeNetwork>();
    network_ = network.get();
    return {std::move(network), gateway};
  }
  Instant at(Duration since) const { return Instant{std::chrono::seconds(100)} + since; }

  FakeNetwork* network_ = nullptr;
};

TEST_F(NeighborsTest, LinkLocalGidNeedsNoNetwork) {
  Neighbors neighbors = make();
  EXPECT_EQ(neighbors.find(link_local_gid(kPeer), at({})).mac, kPeer);
  EXPECT_TRUE(network_->asked.empty());
}

TEST_F(NeighborsTest, KernelKnowsWhatIsOnTheLink) {
  Neighbors neighbors = make(kRouter);
  network_->known[gid("10.99.0.7")] = kPeer;
  EXPECT_EQ(neighbors.find(gid("10.99.0.7"), at({})).mac, kPeer);
  EXPECT_FALSE(neighbors.find(gid("10.99.0.7"), at({})).is_asked);
}

TEST_F(NeighborsTest, RoutersMacIsTheKernelsOrTheGivenOne) {
  Neighbors neighbors = make();
  network_->known[gid("10.99.0.254")] = kPeer;
  EXPECT_EQ(neighbors.find(gid("192.0.2.1"), at({})).mac, kPeer);
  network_->known.clear();
  EXPECT_FALSE(neighbors.find(gid("192.0.2.1"), at({})).is_asked);
  Neighbors with_gateway = make(kRouter);
  network_->known[gid("10.99.0.254")] = kPeer;
  EXPECT_EQ(with_gateway.find(gid("192.0.2.1"), at({})).mac, kRouter);
  EXPECT_EQ(with_gateway.find(gid("fd00::1"), at({})).mac, kRouter) << "no route";
}

TEST_F(NeighborsTest, WithoutARouteAMacIsInventedAtOnce) {
  Neighbors neighbors = make();
  const auto found = neighbors.find(gid("fd00::102:304"), at({}));
  EXPECT_EQ(found.mac.to_string(), "02:00:01:02:03:04");
  EXPECT_FALSE(found.is_asked);
}

TEST_F(NeighborsTest, AsksOnceAndWaitsAWhile) {
  Neighbors neighbors = make();
  EXPECT_TRUE(neighbors.find(gid("10.99.0.7"), at({})).is_asked);
  EXPECT_TRUE(neighbors.find(gid("10.99.0.7"), at(Neighbors::kPatience / 2)).is_asked);
  EXPECT_EQ(network_->asked.size(), 1u);
  EXPECT_FALSE(neighbors.find(gid("10.99.0.7"), at(Neighbors::kPatience)).is_asked);
  EXPECT_FALSE(neighbors.find(gid("10.99.0.7"), at(Neighbors::kMemory / 2)).is_asked);
  network_->known[gid("10.99.0.7")] = kPeer;
  EXPECT_EQ(neighbors.find(gid("10.99.0.7"), at(Neighbors::kMemory / 2)).mac, kPeer);
  network_->known.clear();
  EXPECT_TRUE(neighbors.find(gid("10.99.0.7"), at(Neighbors::kMemory)).is_asked) << "asks again";
  EXPECT_EQ(network_->asked.size(), 2u);
}

TEST_F(NeighborsTest, WhatItRemembersIsBounded) {
  Neighbors neighbors = make();
  for (std::size_t i = 0; i < 2 * Neighbors::kAskedMax; ++i) {
    abi::Gid each = gid("10.99.0.0");
    each.raw[14] = static_cast<std::uint8_t>(i >> 8);
    each.raw[15] = static_cast<std::uint8_t>(i);
    EXPECT_EQ(neighbors.find(each, at({})).is_asked, i < Neighbors::kAskedMax);
  }
  EXPECT_EQ(network_->asked.size(), Neighbors::kAskedMax);
}

}  // namespace
}  // namespace pvrdma::standin
