#include "cm/mad.h"

#include <cstring>
#include <gtest/gtest.h>

namespace pvrdma::cm {
namespace {

// Offsets are those of the standard's tables, counted from the MAD's data.
std::uint8_t data_at(const Mad& mad, std::size_t offset) {
  return std::to_integer<std::uint8_t>(mad[24 + offset]);
}

Gid ipv4(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0, last};
}

Req some_req() {
  Req req;
  req.local_id = 0x01020304;
  req.service_id = service_of_port(PortSpace::kTcp, 7174);
  req.ca_guid = 0x5054'00ff'fec1'0000;
  req.qpn = 0x123456;
  req.responder_resources = 7;
  req.initiator_depth = 9;
  req.remote_timeout = 20;
  req.flow_control = true;
  req.starting_psn = 0xabcdef;
  req.local_timeout = 21;
  req.retry_count = 6;
  req.pkey = 0xffff;
  req.mtu = 3;
  req.rnr_retry = 5;
  req.max_cm_retries = 15;
  req.srq = true;
  req.local_gid = ipv4(1);
  req.remote_gid = ipv4(2);
  req.hop_limit = 64;
  req.ack_timeout = 17;
  req.private_data.back() = std::byte{0x5a};
  return req;
}

TEST(MadTest, ReqLiesWhereTheStandardSays) {
  const Mad mad = build({0x1122334455667788, some_req()});
  const std::array<std::uint8_t, 4> head{1, 7, 2, 3};
  EXPECT_EQ(std::memcmp(mad.data(), head.data(), head.size()), 0);
  EXPECT_EQ(std::to_integer<int>(mad[8]), 0x11);
  EXPECT_EQ(std::to_integer<int>(mad[17]), 16);
  EXPECT_EQ(data_at(mad, 3), 0x04);
  EXPECT_EQ(data_at(mad, 12), 0x01);  // the port space 0x0106, then the port
  EXPECT_EQ(data_at(mad, 13), 0x06);
  EXPECT_EQ(data_at(mad, 14) << 8 | data_at(mad, 15), 7174);
  EXPECT_EQ(data_at(mad, 16), 0x50);
  EXPECT_EQ(data_at(mad, 34), 0x56);
  EXPECT_EQ(data_at(mad, 35), 7);
  EXPECT_EQ(data_at(mad, 39), 9);
  EXPECT_EQ(data_at(mad, 43), 20 << 3 | 1);
  EXPECT_EQ(data_at(mad, 44), 0xab);
  EXPECT_EQ(data_at(mad, 47), 21 << 3 | 6);
  EXPECT_EQ(data_at(mad, 50), 3 << 4 | 5);
  EXPECT_EQ(data_at(mad, 51), 15 << 4 | 1 << 3);
  EXPECT_EQ(data_at(mad, 56 + 15), 1);
  EXPECT_EQ(data_at(mad, 72 + 15), 2);
  EXPECT_EQ(data_at(mad, 93), 64);
  EXPECT_EQ(data_at(mad, 95), 17 << 3);
  EXPECT_EQ(data_at(mad, 231), 0x5a);
}

TEST(MadTest, SidrMessagesLieWhereTheStandardSays) {
  SidrReq req{.request_id = 0x01020304, .pkey = 0xffff, .service_id = service_of_port(PortSpace::kUdp, 7174)};
  req.private_data.front() = std::byte{0x40};
  req.private_data.back() = std::byte{0x5a};
  const Mad asked = build({1, req});
  EXPECT_EQ(std::to_integer<int>(asked[17]), 23);
  EXPECT_EQ(data_at(asked, 3), 0x04);
  EXPECT_EQ(data_at(asked, 4), 0xff);
  EXPECT_EQ(data_at(asked, 12), 0x01);  // the port space 0x0111, then the port
  EXPECT_EQ(data_at(asked, 13), 0x11);
  EXPECT_EQ(data_at(asked, 14) << 8 | data_at(asked, 15), 7174);
  EXPECT_EQ(data_at(asked, 16), 0x40);
  EXPECT_EQ(data_at(asked, 231), 0x5a);

  SidrRep rep{.request_id = 0x01020304, .status = 3, .qpn = 0x123456, .service_id = 5, .qkey = 0x0123'4567};
  rep.private_data.front() = std::byte{0x60};
  rep.private_data.back() = std::byte{0x5b};
  const Mad answered = build({1, rep});
  EXPECT_EQ(std::to_integer<int>(answered[17]), 24);
  EXPECT_EQ(data_at(answered, 4), 3);
  EXPECT_EQ(data_at(answered, 10), 0x56);
  EXPECT_EQ(data_at(answered, 19), 5);
  EXPECT_EQ(data_at(answered, 23), 0x67);
  EXPECT_EQ(data_at(answered, 96), 0x60);
  EXPECT_EQ(data_at(answered, 231), 0x5b);
}

TEST(MadTest, EachMessageIsReadAsItWasWritten) {
  const auto again = [](const Body& body) {
    const Mad mad = build({77, body});
    const auto read = parse(mad);
    EXPECT_TRUE(read);
    EXPECT_EQ(read->transaction, 77u);
    EXPECT_EQ(build(*read), mad);
    return read->body;
  };
  const auto req = std::get<Req>(again(some_req()));
  EXPECT_EQ(req.qpn, 0x123456u);
  EXPECT_EQ(req.starting_psn, 0xabcdefu);
  EXPECT_TRUE(req.srq);
  Rep rep{.local_id = 1, .remote_id = 2, .qpn = 3, .starting_psn = 4, .rnr_retry = 7, .srq = true};
  rep.private_data[195] = std::byte{9};
  EXPECT_EQ(std::get<Rep>(again(rep)).private_data[195], std::byte{9});
  EXPECT_EQ(std::get<Rep>(again(rep)).rnr_retry, 7);
  Rej rej{.local_id = 1, .remote_id = 2, .about = About::kRep, .reason = 28};
  rej.private_data[147] = std::byte{3};
  EXPECT_EQ(std::get<Rej>(again(rej)).about, About::kRep);
  EXPECT_EQ(std::get<Rej>(again(rej)).reason, 28);
  rej.ca_guid = 0x42;
  EXPECT_EQ(std::get<Rej>(again(rej)).ca_guid, 0x42u);
  EXPECT_EQ(std::get<Mra>(again(Mra{1, 2, About::kOther, 24})).service_timeout, 24);
  EXPECT_EQ(std::get<Rtu>(again(Rtu{5, 6})).remote_id, 6u);
  EXPECT_EQ(std::get<Dreq>(again(Dreq{5, 6, 0xfedcba})).remote_qpn, 0xfedcbau);
  EXPECT_EQ(std::get<Drep>(again(Drep{5, 6})).local_id, 5u);
  EXPECT_EQ(std::get<SidrReq>(again(SidrReq{.request_id = 7, .pkey = 8})).pkey, 8);
  EXPECT_EQ(std::get<SidrRep>(again(SidrRep{.request_id = 7, .qpn = 8, .qkey = 9})).qkey, 9u);
}

TEST(MadTest, RefusesWhatIsNoMessageOfTheConnectionManager) {
  const Mad good = build({1, Rtu{5, 6}});
  ASSERT_TRUE(parse(good));
  EXPECT_FALSE(parse(std::span(good).first(255)));
  EXPECT_FALSE(parse({}));
  for (const std::size_t at : {0u, 1u, 2u, 3u, 16u, 17u}) {
    Mad bad = good;
    bad[at] ^= std::byte{0x40};
    EXPECT_FALSE(parse(bad)) << "byte " << at;
  }
  Mad mra = build({1, Mra{}});
  mra[24 + 8] = std::byte{0xc0};
  EXPECT_FALSE(parse(mra)) << "a kind of message that is reserved";
}

TEST(MadTest, IpHeaderOfBothVersions) {
  PrivateData<kReqPrivateBytes> data{};
  put_ip_header({0x1234, ipv4(1), ipv4(2)}, data);
  EXPECT_EQ(data[1], std::byte{0x40});
  EXPECT_EQ(data[2], std::byte{0x12});
  EXPECT_EQ(data[4], std::byte{0}) << "IPv4 addresses stand behind zeros";
  EXPECT_EQ(data[19], std::byte{1});
  EXPECT_EQ(data[35], std::byte{2});
  const auto v4 = parse_ip_header(data);
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->source_port, 0x1234);
  EXPECT_EQ(v4->source, ipv4(1));
  EXPECT_EQ(v4->destination, ipv4(2));

  const Gid v6_source{0xfd, 1};
  put_ip_header({9, v6_source, {0xfd, 2}}, data);
  const auto v6 = parse_ip_header(data);
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->source, v6_source);
  data[1] = std::byte{0x50};
  EXPECT_FALSE(parse_ip_header(data));
  data[1] = std::byte{0x60};
  data[0] = std::byte{1};
  EXPECT_FALSE(parse_ip_header(data)) << "another version of the header";
}

TEST(MadTest, ServicesOfPorts) {
  EXPECT_EQ(service_of_port(PortSpace::kTcp, 0x1c06), 0x0106'1c06u);
  EXPECT_EQ(service_of_port(PortSpace::kUdp, 0x1c06), 0x0111'1c06u);
  EXPECT_EQ(port_of_service(PortSpace::kTcp, 0x0106'1c06), 0x1c06);
  EXPECT_EQ(port_of_service(PortSpace::kUdp, 0x0111'1c06), 0x1c06);
  EXPECT_FALSE(port_of_service(PortSpace::kTcp, 0x0111'1c06));
  EXPECT_FALSE(port_of_service(PortSpace::kTcp, 0x1'0106'1c06));
}

}  // namespace
}  // namespace pvrdma::cm
