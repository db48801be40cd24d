#include "base/ip_headers.h"

#include <gtest/gtest.h>
#include <vector>

namespace pvrdma {
namespace {

IpHeader header(IpProtocol protocol) {
  return {.traffic_class = 0xab,
          .flow_label = 0xfff1'2345,
          .payload_bytes = 0x120,
          .protocol = protocol,
          .hop_limit = 64,
          .source = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 11, 51},
          .destination = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 11, 52}};
}

std::vector<unsigned> written(void (*put)(const IpHeader&, NetworkWriter&), const IpHeader& header) {
  std::array<std::byte, kIpv6HeaderBytes> room;
  NetworkWriter writer(room);
  put(header, writer);
  std::vector<unsigned> out;
  for (const std::byte each : std::span(room).first(room.size() - writer.rest().size()))
    out.push_back(std::to_integer<unsigned>(each));
  return out;
}

TEST(IpHeaders, Ipv4) {
  // The checksum was worked by hand: the other words' sum is 0x25ea7, so 0x5ea9 with its carry.
  EXPECT_EQ(written(put_ipv4, header(IpProtocol::kUdp)),
            (std::vector<unsigned>{0x45, 0xab, 0x01, 0x34, 0,  0,  0x40, 0,   64, 17,
                                   0xa1, 0x56, 192,  168,  11, 51, 192,  168, 11, 52}));
}

TEST(IpHeaders, TheSumOverAWholeIpv4HeaderIsZero) {
  std::array<std::byte, kIpv4HeaderBytes> room;
  for (unsigned hops = 0; hops < 256; ++hops) {
    IpHeader each = header(IpProtocol::kUdp);
    each.hop_limit = static_cast<std::uint8_t>(hops);
    NetworkWriter writer(room);
    put_ipv4(each, writer);
    EXPECT_EQ(ipv4_checksum(room), 0) << hops;
  }
}

TEST(IpHeaders, Ipv6) {
  const IpHeader grh = header(IpProtocol::kIba);
  std::vector<unsigned> expected{0x6a, 0xb1, 0x23, 0x45, 0x01, 0x20, 0x1b, 64};
  expected.insert(expected.end(), grh.source.begin(), grh.source.end());
  expected.insert(expected.end(), grh.destination.begin(), grh.destination.end());
  EXPECT_EQ(written(put_ipv6, grh), expected) << "of the flow label 20 bits";
}

}  // namespace
}  // namespace pvrdma
