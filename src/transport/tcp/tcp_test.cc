#include "transport/tcp/tcp.h"

#include <gtest/gtest.h>

#include "tls/test_certificates.h"
#include "transport/tcp/tcp_fixture.h"

namespace pvrdma::transport::tcp {
namespace {

using namespace std::chrono_literals;

// Two hosts that know each other, with and without TLS.
class TcpPairTest : public testing::TestWithParam<Security> {
 protected:
  TcpOptions options(const std::string& host) {
    TcpOptions options{.lanes = 3};
    if (GetParam() == Security::kTls) options.tls = certificates_.context(host);
    return options;
  }
  void connect() {
    a_.add_peer(b_.as_peer());
    b_.add_peer(a_.as_peer());
    a_.apply();
    b_.apply();
    ASSERT_TRUE(world_.wait([&] { return a_.all_up(b_.id()) && b_.all_up(a_.id()); }));
  }
  Instant now() { return world_.clock().now(); }

  tls::TestCertificates certificates_;
  World world_;
  Host a_{world_, 1, options("esx1")};
  Host b_{world_, 2, options("esx2")};
};

INSTANTIATE_TEST_SUITE_P(Tcp, TcpPairTest, testing::Values(Security::kPlain, Security::kTls),
                         [](const auto& param) { return param.param == Security::kTls ? "Tls" : "Plain"; });

TEST_P(TcpPairTest, CarriesMessagesOfAllKindsBothWays) {
  connect();
  const verbs::Endpoint alice = endpoint(1, 5);
  const verbs::Endpoint bob = endpoint(2, 6);
  const Bytes data = pattern(1000, 1);
  const Scattered payload(data, 4);
  const verbs::Request send{.from = alice,
                            .to = bob,
                            .number = verbs::MessageNumber(9),
                            .op = verbs::RequestOp::kSend,
                            .extra = verbs::Extra::kImmediate,
                            .solicited = true,
                            .extra_value = 0x11223344,
                            .message_bytes = 3000,
                            .offset = 2000,
                            .bytes = 1000};
  const verbs::Request read{.from = alice,
                            .to = bob,
                            .number = verbs::MessageNumber(10),
                            .op = verbs::RequestOp::kRead,
                            .message_bytes = 500,
                            .bytes = 500,
                            .remote_addr = 0x77,
                            .rkey = 8};
  const verbs::Request swap{.from = alice,
                            .to = bob,
                            .number = verbs::MessageNumber(11),
                            .op = verbs::RequestOp::kCompareSwap,
                            .message_bytes = 8,
                            .bytes = 8,
                            .remote_addr = 0x80,
                            .rkey = 8,
                            .compare_add = 4,
                            .swap = 5};
  const verbs::Response answer{.from = bob,
                               .to = alice,
                               .number = verbs::MessageNumber(10),
                               .syndrome = verbs::Syndrome::kAck,
                               .op = verbs::RequestOp::kRead,
                               .offset = 100,
                               .bytes = 1000};
  const verbs::Response nak{.from = bob,
                            .to = alice,
                            .number = verbs::MessageNumber(12),
                            .syndrome = verbs::Syndrome::kRnrNak,
                            .op = verbs::RequestOp::kSend,
                            .rnr_timer = 14,
                            .offset = 77};
  const verbs::Datagram datagram{.from = alice,
                                 .to = bob,
                                 .qkey = 0x1234,
                                 .extra = verbs::Extra::kImmediate,
                                 .solicited = true,
                                 .extra_value = 77,
                                 .bytes = 1000,
                                 .flow_label = 5,
                                 .traffic_class = 6,
                                 .hop_limit = 7,
                                 .roce = RoceVersion::kV2};
  world_.on_shard([&] {
    const HostId to_b = b_.id();
    EXPECT_TRUE(a_.send(to_b, send, payload.spans()));
    EXPECT_TRUE(a_.send(to_b, read, {}));
    EXPECT_TRUE(a_.send(to_b, swap, {}));
    a_.send(to_b, datagram, payload.spans());
    a_.tcp().flush(now());
    const HostId to_a = a_.id();
    b_.send(to_a, answer, payload.spans());
    b_.send(to_a, nak, {});
    EXPECT_TRUE(b_.send(to_a, send, payload.spans()));  // both directions work alike
    b_.tcp().flush(now());
    b_.takes = a_.takes = true;
  });
  ASSERT_TRUE(world_.wait([&] { return b_.pieces == 3 && b_.messages.size() == 3 && a_.pieces == 3; }));

  const auto segments = [](const Message& message) { return message.segment == kSegment; };
  EXPECT_TRUE(std::all_of(b_.messages.begin(), b_.messages.end(), segments));
  EXPECT_TRUE(
      std::all_of(b_.messages.begin(), b_.messages.end(), [&](const auto& m) { return m.from == a_.id(); }));
  const auto got_read = std::get<verbs::Request>(b_.messages[0].body);
  EXPECT_EQ(got_read.op, verbs::RequestOp::kRead);
  EXPECT_EQ(got_read.bytes, 500U);
  EXPECT_EQ(got_read.remote_addr, 0x77U);
  const auto got_swap = std::get<verbs::Request>(b_.messages[1].body);
  EXPECT_EQ(got_swap.compare_add, 4U);
  EXPECT_EQ(got_swap.swap, 5U);
  const auto got_datagram = std::get<verbs::Datagram>(b_.messages[2].body);
  EXPECT_EQ(got_datagram.qkey, 0x1234U);
  EXPECT_EQ(got_datagram.hop_limit, 7U);
  EXPECT_EQ(b_.messages[2].bytes, data);

  ASSERT_EQ(a_.messages.size(), 2U);
  const auto got_answer = std::get<verbs::Response>(a_.messages[0].body);
  EXPECT_EQ(got_answer.offset, 100U);
  EXPECT_EQ(a_.messages[0].bytes, data);
  EXPECT_EQ(std::get<verbs::Response>(a_.messages[1].body).rnr_timer, 14U);
  EXPECT_EQ(std::get<verbs::Response>(a_.messages[1].body).offset, 77U);
  world_.on_shard([&] {
    EXPECT_EQ(a_.tcp().counters().requests, 3U);
    EXPECT_EQ(a_.tcp().counters().datagrams, 1U);
    EXPECT_EQ(a_.tcp().counters().payload_bytes, 2000U);
    EXPECT_EQ(b_.tcp().counters().responses, 2U);
  });
}

TEST_P(TcpPairTest, LargePayloadsArriveByteExactInOrderOnEachLane) {
  connect();
  std::uint64_t total = 0;
  constexpr std::uint32_t kMessages = 120;
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    // Sizes around every limit: gathering, staging, segments.
    static constexpr std::size_t kSizes[] = {0, 1, 2048, 2049, 8190, 8192, 8193, 50'000, 256 * 1024, 65'536};
    const std::size_t bytes = kSizes[i % std::size(kSizes)];
    total += bytes;
    world_.on_shard([&] { a_.post(a_write(b_.id(), 1, i, bytes, 5 + i % 4)); });
  }
  ASSERT_TRUE(world_.wait([&] { return b_.messages.size() == kMessages; }));
  std::map<std::uint32_t, std::uint32_t> last_number;
  for (const Message& message : b_.messages) {
    const auto& request = std::get<verbs::Request>(message.body);
    EXPECT_EQ(message.bytes, pattern(request.message_bytes, request.number.value));
    if (last_number.contains(request.from.qpn.value)) {
      EXPECT_GT(request.number.value, last_number[request.from.qpn.value]);
    }
    last_number[request.from.qpn.value] = request.number.value;
  }
  world_.on_shard([&] {
    EXPECT_EQ(a_.tcp().counters().payload_bytes, total);
    EXPECT_EQ(b_.tcp().errors().bad_frames + b_.tcp().errors().bad_sequence, 0U);
  });
}

TEST_P(TcpPairTest, WhatEnginesLeaveIsSkippedExactly) {
  connect();
  b_.takes = false;
  world_.on_shard([&] {
    for (std::uint32_t i = 0; i < 20; ++i) a_.post(a_write(b_.id(), 1, i, i % 2 == 0 ? 200'000 : 300));
  });
  ASSERT_TRUE(world_.wait([&] { return a_.waiting() == 0; }));
  world_.on_shard([&] { a_.post(a_write(b_.id(), 1, 1000, 100)); });
  ASSERT_TRUE(world_.wait([&] {
    return !b_.messages.empty() &&
           std::get<verbs::Request>(b_.messages.back().body).number == verbs::MessageNumber(1000);
  }));

  for (const Delivery verdict : {Delivery::kUnknownGid, Delivery::kForeignSource}) {
    world_.on_shard([&] {
      b_.verdict = verdict;
      b_.messages.clear();
      b_.pieces = 0;
      for (std::uint32_t i = 0; i < 10; ++i) a_.post(a_write(b_.id(), 1, i, 250'000));
    });
    ASSERT_TRUE(world_.wait([&] { return b_.pieces == 10; }));  // once for each message
    world_.on_shard([&] {
      b_.verdict = Delivery::kDelivered;
      b_.takes = true;
      a_.post(a_write(b_.id(), 1, 2000, 100'000));
    });
    ASSERT_TRUE(world_.wait([&] { return b_.messages.size() == 1; }));
    EXPECT_EQ(b_.messages[0].bytes, pattern(100'000, 2000));
  }
  world_.on_shard([&] {
    EXPECT_EQ(b_.tcp().errors().unknown_gids, 10U);
    EXPECT_EQ(b_.tcp().errors().foreign_sources, 10U);
  });
}

TEST_P(TcpPairTest, AnswersToManyLargeReadsComeBackWhole) {
  connect();
  b_.on_asked = [&](const verbs::Request& request, bool) {
    const Scattered payload(pattern(request.bytes, request.number.value), 7);
    b_.send(a_.id(),
            verbs::Response{.from = request.to,
                            .to = request.from,
                            .number = request.number,
                            .syndrome = verbs::Syndrome::kAck,
                            .op = verbs::RequestOp::kRead,
                            .bytes = request.bytes},
            payload.spans());
  };
  constexpr std::uint32_t kReads = 100;
  world_.on_shard([&] {
    for (std::uint32_t i = 0; i < kReads; ++i) {
      Host::Outgoing read = a_write(b_.id(), 1, i, 0);
      read.request.op = verbs::RequestOp::kRead;
      read.request.message_bytes = read.request.bytes = 200'000 + i;
      a_.post(std::move(read));
    }
  });
  const auto whole = [&] {
    return a_.messages.size() == kReads && a_.messages.back().bytes.size() == 200'000 + kReads - 1;
  };
  ASSERT_TRUE(world_.wait(whole));
  for (std::uint32_t i = 0; i < kReads; ++i) EXPECT_EQ(a_.messages[i].bytes, pattern(200'000 + i, i));
  world_.on_shard([&] { EXPECT_EQ(b_.tcp().errors().responses_dropped, 0U); });
}

TEST_P(TcpPairTest, AnIdleConnectionStays) {
  connect();
  world_.pass(10'000);
  world_.on_shard([&] {
    EXPECT_TRUE(a_.all_up(b_.id()));
    EXPECT_EQ(a_.state(b_.id())->reconnects, 0U);
    EXPECT_EQ(a_.state(b_.id())->sessions_up, 3U);
    EXPECT_EQ(a_.tcp().errors().silent_peers + b_.tcp().errors().silent_peers, 0U);
  });
}

TEST_P(TcpPairTest, ACutIsRepairedAndTold) {
  connect();
  world_.on_shard([&] {
    EXPECT_EQ(a_.up_changes, 1);
    EXPECT_EQ(a_.restored, 0);
    EXPECT_GT(a_.ready, 0);
    for (std::uint32_t i = 0; i < 50; ++i) a_.post(a_write(b_.id(), 1, i, 100'000));
  });
  EXPECT_GE(cut_connections_to(b_.address()), 3);
  ASSERT_TRUE(world_.wait([&] { return a_.restored > 0 && a_.all_up(b_.id()) && a_.waiting() == 0; }));
  world_.on_shard([&] {
    EXPECT_TRUE(a_.tcp().is_up(b_.id()));
    EXPECT_EQ(a_.state(b_.id())->reconnects, 3U);
    EXPECT_EQ(a_.state(b_.id())->trouble, "");
    EXPECT_EQ(b_.restored, 0);  // the lanes that it dialled were not cut
    a_.post(a_write(b_.id(), 1, 999, 70'000));
  });
  ASSERT_TRUE(world_.wait([&] {
    return !b_.messages.empty() &&
           std::get<verbs::Request>(b_.messages.back().body).number == verbs::MessageNumber(999);
  }));
  EXPECT_EQ(b_.messages.back().bytes, pattern(70'000, 999));
}

TEST_P(TcpPairTest, SettingsTakeEffectAtOnceWhileTrafficRuns) {
  connect();
  const auto flood = [&](std::uint32_t first) {
    for (std::uint32_t i = 0; i < 40; ++i) a_.post(a_write(b_.id(), 1, first + i, 100'000, 5 + i % 4));
  };
  const auto down = [&] { return !a_.tcp().is_up(b_.id()) && b_.state(a_.id())->sessions_up == 0; };

  // B is no longer a peer.
  world_.on_shard([&] { flood(0); });
  a_.settings().peers.clear();
  a_.apply();
  ASSERT_TRUE(world_.wait([&] { return down(); }));
  EXPECT_TRUE(world_.on_shard([&] { return a_.tcp().peers().empty(); }));
  EXPECT_EQ(world_.on_shard([&] { return a_.up_changes; }), 2);
  a_.add_peer(b_.as_peer());
  a_.apply();
  ASSERT_TRUE(world_.wait([&] { return a_.all_up(b_.id()) && b_.all_up(a_.id()); }));

  // B is no longer allowed.
  world_.on_shard([&] { flood(100); });
  a_.settings().allow_all = false;
  a_.settings().allowed = {IpNetwork::parse("10.0.0.0/8").value()};
  a_.apply();
  ASSERT_TRUE(world_.wait([&] { return down() && !b_.tcp().is_up(a_.id()); }));
  EXPECT_NE(world_.on_shard([&] { return a_.state(b_.id())->trouble; }).find("allowed"), std::string::npos);
  // B keeps dialling and is refused.
  ASSERT_TRUE(world_.wait([&] { return a_.tcp().errors().not_allowed >= 3; }));
  a_.settings().allowed.push_back(IpNetwork::parse("127.0.0.0/8").value());
  a_.apply();
  ASSERT_TRUE(world_.wait([&] { return a_.all_up(b_.id()) && b_.all_up(a_.id()); }));

  // A neither listens nor connects.
  world_.on_shard([&] { flood(200); });
  a_.settings().address.reset();
  a_.apply();
  EXPECT_FALSE(world_.on_shard([&] { return a_.tcp().listening(); }));
  ASSERT_TRUE(world_.wait([&] { return down(); }));
  world_.pass(3000);
  EXPECT_TRUE(world_.on_shard([&] { return down() && !b_.tcp().is_up(a_.id()); }));
  EXPECT_EQ(world_.on_shard([&] { return a_.tcp().listen_trouble(); }), "");
  a_.settings().address = a_.address();
  a_.apply();
  ASSERT_TRUE(world_.wait([&] { return a_.all_up(b_.id()) && b_.all_up(a_.id()) && a_.waiting() == 0; }));
}

TEST_P(TcpPairTest, APeerThatMovesIsDialledThere) {
  connect();
  const IpAddress elsewhere = address_of(22);
  b_.settings().address = elsewhere;
  b_.apply();
  a_.settings().peers[0].address = elsewhere;
  a_.apply();
  ASSERT_TRUE(world_.wait([&] { return a_.all_up(b_.id()) && b_.all_up(a_.id()); }));
  world_.on_shard([&] { a_.post(a_write(b_.id(), 1, 1, 5000)); });
  ASSERT_TRUE(world_.wait([&] { return b_.messages.size() == 1; }));
}

TEST_P(TcpPairTest, KnowsOfAPeerWhoseDaemonStopsUntilItIsBack) {
  Host c(world_, 3, options("esx3"));
  std::unique_ptr<Host> d;
  const auto start = [&] {
    d = std::make_unique<Host>(world_, 4, options("esx4"));
    d->add_peer(c.as_peer());
    d->apply();
    ASSERT_TRUE(world_.wait([&] { return c.all_up(HostId(4)) && d->all_up(c.id()); }));
  };
  const auto is_stopping = [&] { return world_.on_shard([&] { return c.tcp().is_stopping(HostId(4)); }); };
  c.add_peer({.id = HostId(4), .name = "esx4", .address = address_of(4), .port = kTestPort});
  c.apply();
  EXPECT_FALSE(is_stopping()) << "it has never run";
  start();
  EXPECT_FALSE(is_stopping());

  EXPECT_GE(cut_connections_to(d->address()), 3);
  ASSERT_TRUE(world_.wait([&] { return !c.tcp().is_up(HostId(4)); }));
  EXPECT_FALSE(is_stopping()) << "the network failed";
  ASSERT_TRUE(world_.wait([&] { return c.all_up(HostId(4)); }));

  d.reset();
  ASSERT_TRUE(world_.wait([&] { return !c.tcp().is_up(HostId(4)); }));
  EXPECT_TRUE(is_stopping());
  world_.pass(5000);
  EXPECT_TRUE(is_stopping()) << "however often it is dialled in vain";
  start();
  EXPECT_FALSE(is_stopping());

  d.reset();
  ASSERT_TRUE(world_.wait([&] { return !c.tcp().is_up(HostId(4)); }));
  c.settings().peers.clear();
  c.apply();
  EXPECT_FALSE(is_stopping()) << "no peer any more";
}

TEST_P(TcpPairTest, CanBeDestroyedInAnyState) {
  for (int turns = 0; turns < 30; ++turns) {
    Host c(world_, 3, options("esx3"));
    auto d = std::make_unique<Host>(world_, 4, options("esx4"));
    c.apply();  // both listen before either dials
    d->apply();
    c.add_peer(d->as_peer());
    d->add_peer(c.as_peer());
    c.apply();
    d->apply();
    c.on_asked = [&](const verbs::Request&, bool) { c.path(HostId(4), endpoint(3, 5), endpoint(4, 5)); };
    world_.on_shard([&] {
      for (std::uint32_t i = 0; i < 20; ++i) {
        d->post(a_write(c.id(), 4, i, 200'000));
        c.post(a_write(HostId(4), 3, i, 200'000));
      }
    });
    world_.pass(turns);
    d.reset();
    world_.pass(3);
    EXPECT_FALSE(world_.on_shard([&] { return c.tcp().is_up(HostId(4)); }));
  }
}

// A certificate must be for the host that presents it.
TEST(TcpTls, ACertificateOfAnotherHostIsRefusedOnBothSides) {
  tls::TestCertificates certificates;
  tls::TestCertificates foreign;
  World world;
  Host a(world, 1, {.lanes = 1, .tls = certificates.context("esx1")});
  Host other_name(world, 2, {.lanes = 1, .tls = certificates.context("esx7")});
  Host other_authority(world, 3, {.lanes = 1, .tls = foreign.context("esx3")});
  Host plain(world, 4, {.lanes = 1});
  for (Host* host : {&a, &other_name, &other_authority, &plain}) host->apply();  // all listen
  for (Host* host : {&other_name, &other_authority, &plain}) {
    a.add_peer(host->as_peer());
    host->add_peer(a.as_peer());
    host->apply();
  }
  a.apply();
  const auto says = [&](Host& host, HostId of, std::string_view what) {
    return host.state(of)->trouble.find(what) != std::string::npos;
  };
  ASSERT_TRUE(world.wait([&] {
    return says(a, HostId(2), "esx7") && says(other_name, a.id(), "esx7") && says(a, HostId(3), "TLS") &&
           says(other_authority, a.id(), "TLS") && says(a, HostId(4), "TLS") &&
           !plain.state(a.id())->trouble.empty();
  }));
  world.on_shard([&] {
    EXPECT_GE(a.tcp().errors().tls_failures, 3U);
    for (Host* host : {&other_name, &other_authority, &plain}) {
      EXPECT_FALSE(a.tcp().is_up(host->id()));
      EXPECT_FALSE(host->tcp().is_up(a.id()));
      EXPECT_EQ(a.state(host->id())->sessions_up, 0U);
      EXPECT_EQ(host->state(a.id())->sessions_up, 0U);
    }
  });
}

TEST(TcpCreate, RefusesWhatCannotWork) {
  World world;
  Host inbound(world, 1);
  const auto made = [&](const TcpOptions& options) {
    return world.on_shard([&] {
      auto tcp = Tcp::create(options, world.loop(), world.clock(), inbound);
      return tcp ? std::string() : tcp.error().message;
    });
  };
  EXPECT_NE(made({.host_name = ""}), "");
  EXPECT_NE(made({.host_name = std::string(65, 'a')}), "");
  EXPECT_NE(made({.host_name = "a", .lanes = 0}), "");
  EXPECT_NE(made({.host_name = "a", .lanes = 17}), "");
  EXPECT_EQ(made({.host_name = "a", .congestion_control = "nosuch"}),
            "[tcp] congestion_control = \"nosuch\": the kernel does not have it, or its module is not "
            "loaded: choose "
            "one that /proc/sys/net/ipv4/tcp_allowed_congestion_control lists, or let root load its module "
            "(modprobe tcp_nosuch) and add it there, or leave the key out");
}

}  // namespace
}  // namespace pvrdma::transport::tcp
