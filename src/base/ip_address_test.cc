#include "base/ip_address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

namespace pvrdma {
namespace {

TEST(IpAddress, ParsesBothFamilies) {
  EXPECT_EQ(IpAddress::parse("192.168.1.5")->to_string(), "192.168.1.5");
  EXPECT_FALSE(IpAddress::parse("192.168.1.5")->is_v6());
  EXPECT_EQ(IpAddress::parse("FD00:0::5")->to_string(), "fd00::5");
  EXPECT_TRUE(IpAddress::parse("fd00::5")->is_v6());
}

TEST(IpAddress, RefusesWhatIsNone) {
  for (const char* text : {"", "1.2.3", "1.2.3.4.5", "256.1.1.1", "fd00:::1", "esx1", "1.2.3.4/8"}) {
    const auto parsed = IpAddress::parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message.find(text), std::string::npos);
  }
}

TEST(IpAddress, GoesThroughSockaddr) {
  for (const char* text : {"10.1.2.3", "fd00::9"}) {
    const IpAddress address = *IpAddress::parse(text);
    sockaddr_storage storage;
    const socklen_t length = address.to_sockaddr(28250, storage);
    EXPECT_EQ(length, address.is_v6() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    EXPECT_EQ(*IpAddress::from(storage), address);
  }
}

TEST(IpAddress, TakesMappedAddressesForWhatTheyMean) {
  sockaddr_storage storage;
  IpAddress::parse("::ffff:10.0.0.7")->to_sockaddr(1, storage);
  EXPECT_EQ(IpAddress::from(storage)->to_string(), "10.0.0.7");
}

TEST(IpNetwork, ContainsWhatSharesItsPrefix) {
  const IpNetwork network = *IpNetwork::parse("10.1.128.0/17");
  EXPECT_TRUE(network.contains(*IpAddress::parse("10.1.255.1")));
  EXPECT_FALSE(network.contains(*IpAddress::parse("10.1.127.1")));
  EXPECT_FALSE(network.contains(*IpAddress::parse("fd00::1")));
  EXPECT_TRUE(IpNetwork::parse("0.0.0.0/0")->contains(*IpAddress::parse("8.8.8.8")));
  EXPECT_TRUE(IpNetwork::parse("fd00::/8")->contains(*IpAddress::parse("fdff::1")));
}

TEST(IpNetwork, AnAddressIsANetworkOfOne) {
  const IpNetwork network = *IpNetwork::parse("10.0.0.5");
  EXPECT_TRUE(network.contains(*IpAddress::parse("10.0.0.5")));
  EXPECT_FALSE(network.contains(*IpAddress::parse("10.0.0.4")));
  EXPECT_EQ(network.to_string(), "10.0.0.5");
}

TEST(IpNetwork, SpellingsOfOneNetworkAreEqual) {
  EXPECT_EQ(*IpNetwork::parse("10.9.9.9/8"), *IpNetwork::parse("10.0.0.0/8"));
  EXPECT_EQ(IpNetwork::parse("10.9.9.9/8")->to_string(), "10.0.0.0/8");
}

TEST(IpNetwork, RefusesBadPrefixes) {
  for (const char* text : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "fd00::/129", "/8", "10.0.0.0/-1"}) {
    EXPECT_FALSE(IpNetwork::parse(text)) << text;
  }
}

}  // namespace
}  // namespace pvrdma
