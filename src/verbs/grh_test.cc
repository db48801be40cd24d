#include "verbs/grh.h"

#include <gtest/gtest.h>

#include "verbs/engine_fixture.h"

namespace pvrdma::verbs {
namespace {

Datagram datagram(RoceVersion roce, const Gid& from, const Gid& to) {
  Datagram out;
  out.from = {from, Qpn(5)};
  out.to = {to, Qpn(1)};
  out.bytes = 256;
  out.flow_label = 0x12345;
  out.traffic_class = 0xab;
  out.hop_limit = 64;
  out.roce = roce;
  return out;
}

std::uint32_t byte(const Grh& grh, std::size_t i) {
  return std::to_integer<std::uint32_t>(grh[i]);
}
std::uint32_t be16(const Grh& grh, std::size_t i) {
  return byte(grh, i) << 8 | byte(grh, i + 1);
}
Gid gid_at(const Grh& grh, std::size_t i) {
  Gid out;
  std::memcpy(out.bytes.data(), grh.data() + i, 16);
  return out;
}

const Gid kLinkLocalA{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1}};
const Gid kLinkLocalB{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 2}};

TEST(Grh, V1IsAnIpv6LikeHeader) {
  const Datagram d = datagram(RoceVersion::kV1, kLinkLocalA, kLinkLocalB);
  const Grh grh = make_grh(d);
  EXPECT_EQ(network_type(d), abi::NetworkHdrType::kRocev1);
  EXPECT_EQ(be16(grh, 0) << 16 | be16(grh, 2), 6u << 28 | 0xabu << 20 | 0x12345);
  EXPECT_EQ(be16(grh, 4), 12u + 8 + 256 + 4);  // BTH, DETH, payload, ICRC
  EXPECT_EQ(byte(grh, 6), 0x1bu);
  EXPECT_EQ(byte(grh, 7), 64u);
  EXPECT_EQ(gid_at(grh, 8), kLinkLocalA);
  EXPECT_EQ(gid_at(grh, 24), kLinkLocalB);
}

TEST(Grh, V1StaysSoForMappedAddresses) {
  const Datagram d = datagram(RoceVersion::kV1, test_gid(51), test_gid(52));
  EXPECT_EQ(network_type(d), abi::NetworkHdrType::kRocev1);
  EXPECT_EQ(byte(make_grh(d), 0) >> 4, 6u);
}

TEST(Grh, V2OverIpv6CarriesUdp) {
  const Datagram d = datagram(RoceVersion::kV2, kLinkLocalA, kLinkLocalB);
  const Grh grh = make_grh(d);
  EXPECT_EQ(network_type(d), abi::NetworkHdrType::kIpv6);
  EXPECT_EQ(byte(grh, 6), 17u);
  EXPECT_EQ(be16(grh, 4), 8u + 12 + 8 + 256 + 4);
}

TEST(Grh, V2OverIpv4IsAtTheEndWithARightChecksum) {
  Datagram d = datagram(RoceVersion::kV2, test_gid(51), test_gid(52));
  d.extra = Extra::kImmediate;
  const Grh grh = make_grh(d);
  EXPECT_EQ(network_type(d), abi::NetworkHdrType::kIpv4);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(byte(grh, i), 0u) << i;
  EXPECT_EQ(byte(grh, 20), 0x45u);
  EXPECT_EQ(byte(grh, 21), 0xabu);
  EXPECT_EQ(be16(grh, 22), 20u + 8 + 12 + 8 + 4 + 256 + 4);
  EXPECT_EQ(byte(grh, 28), 64u);
  EXPECT_EQ(byte(grh, 29), 17u);
  EXPECT_EQ(be16(grh, 32) << 16 | be16(grh, 34), 0xc0a8'0b33u);
  EXPECT_EQ(be16(grh, 36) << 16 | be16(grh, 38), 0xc0a8'0b34u);
  std::uint32_t sum = 0;  // the ones' complement sum over a valid header has all bits set
  for (std::size_t i = 20; i < 40; i += 2) sum += be16(grh, i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  EXPECT_EQ(sum, 0xffffu);
}

TEST(Grh, ChecksumOfAKnownHeader) {
  Datagram d = datagram(RoceVersion::kV2, test_gid(51), test_gid(52));
  d.traffic_class = 0;
  // 4500 0134 0000 4000 4011 0000 c0a8 0b33 c0a8 0b34, computed by hand
  EXPECT_EQ(be16(make_grh(d), 30),
            0xffffu - ((0x4500 + 0x0134 + 0x4000 + 0x4011 + 0xc0a8 + 0x0b33 + 0xc0a8 + 0x0b34) % 0xffff));
}

TEST(PacketType, IsWhatUserSpaceLooksForInTheServiceLevel) {
  Datagram d;
  d.roce = RoceVersion::kV2;
  d.to.gid.bytes = {0xfe, 0x80};
  EXPECT_EQ(packet_type(d), 9);
  d.to.gid.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 11, 51};
  EXPECT_EQ(packet_type(d), 10);
  d.roce = RoceVersion::kV1;
  EXPECT_EQ(packet_type(d), 0);
}

}  // namespace
}  // namespace pvrdma::verbs
