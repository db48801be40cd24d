// Connections that come while the shard has no memory, or the process no descriptor: they wait or end, and
// nothing else changes.
#include <fstream>
#include <sys/resource.h>

#include "support/counted_new.h"
#include "support/net_namespace.h"
#include "support/openssl_memory.h"
#include "tls/test_certificates.h"
#include "transport/inbound_fixture.h"
#include "transport/tcp/listener.h"
#include "transport/tcp/raw_peer.h"
#include "transport/tcp/reception.h"

namespace pvrdma::transport::tcp {
namespace {

using test::NoMemoryFrom;

// No file can be opened while it exists.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

class TcpEntryNoMemory : public testing::Test {
 protected:
  TcpEntryNoMemory() { log::set_level(log::Level::kError); }

  test::ManualClock clock_;
  std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
};

TEST_F(TcpEntryNoMemory, AListenerPausesWithoutAWord) {
  int accepted = 0;
  Listener listener(*loop_, clock_, [&](Fd, const IpAddress&) { ++accepted; });
  listener.open(address_of(1), kTestPort);
  const RawPeer peer = RawPeer::dial(address_of(9), address_of(1));
  for (std::uint64_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    bool failed = false;
    {
      const NoDescriptors no_descriptors;
      const NoMemoryFrom no_memory(nth);
      loop_->turn(Duration{0});
      failed = no_memory.has_failed();
    }
    EXPECT_EQ(accepted, 0);
    if (!failed) break;
    clock_.advance(std::chrono::seconds(1));
    listener.on_time(clock_.now());
  }
  EXPECT_EQ(listener.trouble(), fmt::format("cannot accept connections at {} port {}: Too many open files",
                                            address_of(1).to_string(), kTestPort));
  clock_.advance(std::chrono::seconds(1));
  listener.on_time(clock_.now());
  loop_->turn(Duration{0});
  EXPECT_EQ(accepted, 1) << "the peer has waited";
  EXPECT_EQ(listener.trouble(), "");
}

// What is refused gives its place back, once. The addresses are so long that naming them takes memory.
TEST_F(TcpEntryNoMemory, APeersShareStaysWhatItIs) {
  const test::NetNamespace network;
  if (!network) GTEST_SKIP() << "makes a network namespace: needs root";
  std::ofstream("/proc/sys/net/ipv6/conf/lo/disable_ipv6") << "0\n";
  ASSERT_TRUE(test::NetNamespace::ip("link set lo up"));
  const auto here = IpAddress::parse("fd00:1111:2222:3333::1").value();
  const auto there = IpAddress::parse("fd00:1111:2222:3333::9").value();
  for (const IpAddress& address : {here, there})
    ASSERT_TRUE(test::NetNamespace::ip("addr add " + address.to_string() + "/128 dev lo nodad"));
  NoInbound nobody;
  tls::TestCertificates certificates;
  auto tcp = Tcp::create({.host_name = "esx1", .lanes = 2, .tls = certificates.context("esx1")}, *loop_,
                         clock_, nobody)
                 .value();
  TcpSettings settings;
  settings.address = here;
  settings.port = kTestPort;
  settings.peers = {{.id = HostId(9), .name = "esx9", .address = there, .port = kTestPort}};
  tcp->configure(settings);
  const auto knock = [&] {
    RawPeer peer = RawPeer::dial(there, here);
    loop_->turn(Duration{0});
    return peer;
  };
  int failed = 0;
  for (std::uint64_t of_openssl = 1; of_openssl < 4; ++of_openssl) {
    for (std::uint64_t nth = 1; nth < 12; ++nth) {
      const test::NoOpensslMemory no_openssl_memory(of_openssl);
      const RawPeer peer = RawPeer::dial(there, here);
      const NoMemoryFrom no_memory(nth);
      loop_->turn(Duration{0});
      clock_.advance(std::chrono::seconds(1));
      if (test::NoOpensslMemory::has_failed()) ++failed;
    }
  }
  EXPECT_GT(failed, 0) << "OpenSSL asked for memory and got none";
  clock_.advance(std::chrono::seconds(60));
  loop_->turn(Duration{0});
  const std::uint64_t before = tcp->errors().no_room;
  std::vector<RawPeer> waiting;
  for (int i = 0; i < 100 && tcp->errors().no_room == before; ++i) {
    waiting.push_back(knock());
    clock_.advance(std::chrono::milliseconds(150));  // a share of eight may begin more often than that
  }
  EXPECT_EQ(tcp->errors().no_room, before + 1);
  EXPECT_EQ(waiting.size(), kStrangersMin + 1) << "the last was refused";
}

// It enters, is refused or ends, and shard 0 has its place back.
TEST_F(TcpEntryNoMemory, ALaneForAnotherShardIsNeverLeftWithoutAnAnswer) {
  NoInbound nobody;
  const auto other_loop = shard::Loop::create({.shard = 1}, clock_).value();
  std::unique_ptr<Tcp> other =
      Tcp::create({.host_name = "esx1", .shard = ShardNumber(1), .shards = 2, .lanes = 1}, *other_loop,
                  clock_, nobody)
          .value();
  const auto tcp =
      Tcp::create({.host_name = "esx1",
                   .shards = 2,
                   .lanes = 1,
                   .pass_lane =
                       [&](ShardNumber, std::unique_ptr<PassedLane> lane) {
                         return other_loop->post(shard::Task(
                             [&, lane = std::move(lane)]() mutable { other->take(std::move(lane)); }));
                       }},
                  *loop_, clock_, nobody)
          .value();
  const TcpSettings settings{
      .address = address_of(1),
      .port = kTestPort,
      .peers = {{.id = HostId(9), .name = "esx9", .address = address_of(9), .port = kTestPort}}};
  tcp->configure(settings);
  other->configure(settings);
  const auto turn_all = [&] {
    for (int i = 0; i < 4; ++i) {
      loop_->turn(Duration{0});
      other_loop->turn(Duration{0});
    }
  };
  std::uint64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    SCOPED_TRACE(nth);
    RawPeer peer = RawPeer::dial(address_of(9), address_of(1));
    peer.hello({.host = wire::HostName("esx9"), .id = {1, 2}, .shard = ShardNumber(1)});
    {
      const NoMemoryFrom no_memory(nth);
      turn_all();
      failed = no_memory.has_failed();
    }
    clock_.advance(std::chrono::seconds(1));  // a listener that paused goes on
    turn_all();
    pollfd answer{.fd = peer.fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&answer, 1, 0), 1);
    const auto frame = peer.next();
    if (!failed) {
      EXPECT_TRUE(frame && std::holds_alternative<wire::Welcome>(frame->body));
    }
    clock_.advance(std::chrono::seconds(1));
  }
  EXPECT_GT(nth, 10U);
  std::vector<RawPeer> waiting;
  for (std::uint32_t i = 0; i < kStrangersMin; ++i) {
    waiting.push_back(RawPeer::dial(address_of(9), address_of(1)));
    turn_all();
  }
  EXPECT_EQ(tcp->errors().no_room, 0U);
}

}  // namespace
}  // namespace pvrdma::transport::tcp
