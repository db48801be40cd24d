#include "transport/hca/introduction.h"

#include "gtest/gtest.h"

namespace pvrdma::transport::hca {
namespace {

verbs::Gid link_local_gid(std::uint8_t last) {
  verbs::Gid gid{{0xfe, 0x80}};
  gid.bytes[15] = last;
  return gid;
}
verbs::Gid ipv4_gid(std::uint8_t last) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}};
}
verbs::Gid ipv6_gid(std::uint8_t last) {
  verbs::Gid gid{{0xfd}};
  gid.bytes[15] = last;
  return gid;
}

constexpr PipeEndpoint kEnd{.qpn = 17, .psn = 5, .mtu = 1024, .slots = 256};

TEST(Introduction, RefusesWhatNoEndCanBe) {
  EXPECT_EQ(defect_of(kEnd), "");
  for (const auto& spoil : std::vector<void (*)(PipeEndpoint&)>{
           [](PipeEndpoint& end) { end.qpn = 0; }, [](PipeEndpoint& end) { end.qpn = 1; },
           [](PipeEndpoint& end) { end.qpn = 1U << 24; }, [](PipeEndpoint& end) { end.psn = 1U << 24; },
           [](PipeEndpoint& end) { end.mtu = 0; }, [](PipeEndpoint& end) { end.mtu = 128; },
           [](PipeEndpoint& end) { end.mtu = 1500; }, [](PipeEndpoint& end) { end.mtu = 8192; },
           [](PipeEndpoint& end) { end.slots = 63; }, [](PipeEndpoint& end) { end.slots = 257; }}) {
    PipeEndpoint bad = kEnd;
    spoil(bad);
    EXPECT_NE(defect_of(bad), "");
    EXPECT_NE(defect_of(PipeOffer{bad, {link_local_gid(1)}}), "");
  }
  EXPECT_EQ(defect_of(PipeOffer{kEnd, {link_local_gid(1)}}), "");
  EXPECT_NE(defect_of(PipeOffer{kEnd, {}}), "");
  EXPECT_NE(defect_of(PipeOffer{kEnd, std::vector<verbs::Gid>(kGidsMax + 1)}), "");
}

TEST(Introduction, AnAnswerSpeaksToAGidThatWasOffered) {
  const PipeOffer offer{kEnd, {ipv4_gid(1), link_local_gid(1)}};
  EXPECT_EQ(defect_of({kEnd, ipv4_gid(1), ipv4_gid(2)}, offer), "");
  EXPECT_NE(defect_of({kEnd, ipv4_gid(3), ipv4_gid(2)}, offer), "");
  EXPECT_NE(defect_of({kEnd, ipv4_gid(1), link_local_gid(2)}, offer), "");
  PipeEndpoint bad = kEnd;
  bad.slots = 0;
  EXPECT_NE(defect_of({bad, ipv4_gid(1), ipv4_gid(2)}, offer), "");
}

TEST(Introduction, UsesTheTaggedAdaptersGidAndLinkLocalOnes) {
  const std::vector<verbs::Gid> port{link_local_gid(1), ipv4_gid(1), ipv6_gid(1), link_local_gid(9)};
  EXPECT_EQ(usable_gids(port, ipv4_gid(1)), (std::vector{ipv4_gid(1), link_local_gid(1), link_local_gid(9)}));
  EXPECT_EQ(usable_gids(port, ipv4_gid(2)), (std::vector{link_local_gid(1), link_local_gid(9)}))
      << "it is on another NIC";
  EXPECT_EQ(usable_gids(port, std::nullopt), (std::vector{link_local_gid(1), link_local_gid(9)}));
  EXPECT_EQ(usable_gids(port, link_local_gid(9)), (std::vector{link_local_gid(9), link_local_gid(1)}));
  EXPECT_EQ(usable_gids({}, ipv4_gid(1)), std::vector<verbs::Gid>{});
}

TEST(Introduction, ChoosesGidsOfOneFamily) {
  EXPECT_EQ(choose_gids({ipv4_gid(1), link_local_gid(1)}, {ipv4_gid(2), link_local_gid(2)}),
            (GidPair{ipv4_gid(1), ipv4_gid(2)}));
  EXPECT_EQ(choose_gids({ipv4_gid(1), link_local_gid(1)}, {ipv6_gid(2), link_local_gid(2)}),
            (GidPair{link_local_gid(1), link_local_gid(2)}));
  EXPECT_EQ(choose_gids({ipv4_gid(1)}, {ipv6_gid(2)}), std::nullopt);
  EXPECT_EQ(choose_gids({}, {ipv6_gid(2)}), std::nullopt);
}

}  // namespace
}  // namespace pvrdma::transport::hca
