// Which peers get in, which are refused and why, and how a dialler and a listener react to trouble.
#include <openssl/ssl.h>

#include "support/manual_clock.h"
#include "tls/test_certificates.h"
#include "transport/inbound_fixture.h"
#include "transport/tcp/raw_peer.h"
#include "transport/tcp/reception.h"

namespace pvrdma::transport::tcp {
namespace {

TEST_F(TcpRawTest, RefusesWhoMayNotEnterAndSaysWhy) {
  know_raw_peer();
  const auto refusal = [&](const IpAddress& from, const std::string& name) {
    RawPeer peer = RawPeer::dial(from, a_.address());
    peer.hello(name);
    const auto reject = peer.next_as<wire::Reject>();
    EXPECT_TRUE(peer.ended());
    return reject.value_or(wire::Reject{});
  };
  wire::Reject reject = refusal(address_of(9), "esx8");
  EXPECT_EQ(reject.reason, wire::RejectReason::kUnknownHost);
  EXPECT_NE(reject.sentence.view().find("esx8"), std::string_view::npos);
  reject = refusal(address_of(8), "esx9");  // a foreign address
  EXPECT_EQ(reject.reason, wire::RejectReason::kUnknownHost);
  EXPECT_NE(reject.sentence.view().find(address_of(8).to_string()), std::string_view::npos);
  reject = refusal(address_of(9), "esx1");
  EXPECT_NE(reject.sentence.view().find("two hosts have the same name"), std::string_view::npos);
  EXPECT_EQ(errors().unknown_hosts, 3U);

  a_.settings().allow_all = false;
  a_.settings().allowed = {IpNetwork::parse(address_of(9).to_string()).value()};
  a_.apply();
  reject = refusal(address_of(8), "esx9");
  EXPECT_EQ(reject.reason, wire::RejectReason::kNotAllowed);
  EXPECT_EQ(errors().not_allowed, 1U);
  enter();
}

TEST_F(TcpRawTest, APeerDoesNotEnterUnderAnothersName) {
  know_raw_peer();
  a_.add_peer({.id = HostId(8), .name = "esx8", .address = address_of(8), .port = kTestPort});
  a_.apply();
  RawPeer liar = RawPeer::dial(address_of(8), a_.address());
  liar.hello("esx9");
  const auto reject = liar.next_as<wire::Reject>();
  ASSERT_TRUE(reject.has_value());
  EXPECT_EQ(reject->reason, wire::RejectReason::kUnknownHost);
  EXPECT_EQ(reject->sentence.view(), fmt::format("host esx9 has address {}, not {}",
                                                 address_of(9).to_string(), address_of(8).to_string()));
  EXPECT_TRUE(liar.ended());
  EXPECT_EQ(errors().unknown_hosts, 1U);
  enter();
}

TEST_F(TcpRawTest, RefusesAnotherProtocolVersionNamingBoth) {
  know_raw_peer();
  wire::Head buffer;
  const auto head = wire::encode(wire::Hello{.host = wire::HostName("esx9")}, buffer);
  Bytes hello(head.begin(), head.end());
  hello[wire::kHeaderBytes + 9] = std::byte{99};  // the low byte of the version, after the magic
  RawPeer peer = RawPeer::dial(address_of(9), a_.address());
  peer.send(hello);
  const auto reject = peer.next_as<wire::Reject>();
  ASSERT_TRUE(reject.has_value());
  EXPECT_EQ(reject->reason, wire::RejectReason::kWrongVersion);
  EXPECT_EQ(reject->version, wire::kProtocolVersion);
  EXPECT_NE(reject->sentence.view().find("99"), std::string_view::npos);
  EXPECT_NE(reject->sentence.view().find(std::to_string(wire::kProtocolVersion)), std::string_view::npos);
  EXPECT_TRUE(peer.ended());
  EXPECT_EQ(errors().wrong_version, 1U);
}

TEST_F(TcpRawTest, GarbageEndsOnlyTheConnectionItCameOn) {
  know_raw_peer();
  RawPeer stranger = RawPeer::dial(address_of(9), a_.address());
  stranger.send(Bytes(300, std::byte{'G'}));
  EXPECT_TRUE(stranger.next_as<wire::Reject>().has_value());
  EXPECT_TRUE(stranger.ended());
  EXPECT_EQ(errors().bad_frames, 1U);

  RawPeer good = RawPeer::dial(address_of(9), a_.address());
  EXPECT_TRUE(good.hello("esx9", 1, 2));
  EXPECT_TRUE(good.next_as<wire::Welcome>().has_value());
  const std::vector<std::pair<std::string, std::function<void(RawPeer&)>>> attacks = {
      {"garbage", [&](RawPeer& peer) { peer.send(Bytes(300, std::byte{0xff})); }},
      {"oversized",
       [&](RawPeer& peer) {
         wire::Head buffer;
         const auto head = wire::encode(request_frame(1, 1, 1000), buffer);
         Bytes frame(head.begin(), head.end());
         frame[0] = std::byte{0x7f};
         peer.send(frame);
       }},
      {"response from a dialler",
       [&](RawPeer& peer) {
         peer.send(wire::Frame{.sequence = 1,
                               .segment = kSegment,
                               .body = verbs::Response{.from = endpoint(9, 5), .to = endpoint(1, 5)}});
       }},
  };
  std::uint64_t count = 1;
  for (const auto& [name, attack] : attacks) {
    SCOPED_TRACE(name);
    RawPeer peer = RawPeer::dial(address_of(9), a_.address());
    EXPECT_TRUE(peer.hello("esx9", 0, 2));
    EXPECT_TRUE(peer.next_as<wire::Welcome>().has_value());
    attack(peer);
    const auto goodbye = peer.next_as<wire::Goodbye>();
    ASSERT_TRUE(goodbye.has_value());
    EXPECT_EQ(goodbye->reason, wire::GoodbyeReason::kBadFrame);
    EXPECT_FALSE(goodbye->sentence.view().empty());
    EXPECT_TRUE(peer.ended());
    EXPECT_EQ(errors().bad_frames, ++count);
  }
  EXPECT_TRUE(good.send(request_frame(1, 7, 100), pattern(100, 7)));
  ASSERT_TRUE(world_.wait([&] { return a_.messages.size() == 1; }));
  EXPECT_EQ(a_.messages[0].bytes, pattern(100, 7));
  EXPECT_EQ(a_.messages[0].from, HostId(9));
}

TEST_F(TcpRawTest, ReplayedAndReorderedFramesEndTheConnection) {
  know_raw_peer();
  const wire::Frame hello_again{.body = wire::Hello{.host = wire::HostName("esx9")}};
  for (const wire::Frame& frame : {request_frame(1, 8, 100), request_frame(3, 8, 100), hello_again}) {
    RawPeer peer = enter();
    EXPECT_TRUE(peer.send(request_frame(1, 7, 100), pattern(100, 7)));
    EXPECT_TRUE(peer.send(frame));
    const auto goodbye = peer.next_as<wire::Goodbye>();
    ASSERT_TRUE(goodbye.has_value());
    EXPECT_EQ(goodbye->reason, wire::GoodbyeReason::kBadSequence);
    EXPECT_TRUE(peer.ended());
  }
  EXPECT_EQ(errors().bad_sequence, 3U);
  EXPECT_EQ(world_.on_shard([&] { return a_.messages.size(); }), 3U);  // only the first message of each
}

TEST_F(TcpRawTest, ASecondSessionOfALaneReplacesTheFirst) {
  know_raw_peer();
  RawPeer first = enter();
  RawPeer second = enter();
  const auto goodbye = first.next_as<wire::Goodbye>();
  ASSERT_TRUE(goodbye.has_value());
  EXPECT_EQ(goodbye->reason, wire::GoodbyeReason::kReplaced);
  EXPECT_TRUE(first.ended());
  EXPECT_TRUE(second.send(request_frame(1, 7, 10), pattern(10, 7)));
  ASSERT_TRUE(world_.wait([&] { return a_.messages.size() == 1; }));
  // An answer takes the second connection.
  world_.on_shard([&] {
    a_.send(HostId(9),
            verbs::Response{.from = endpoint(1, 5), .to = endpoint(9, 5), .number = verbs::MessageNumber(7)},
            {});
    a_.tcp().flush(world_.clock().now());
  });
  EXPECT_TRUE(second.next_as<verbs::Response>().has_value());
}

TEST_F(TcpRawTest, AnotherNumberOfLanesReplacesAllThatWere) {
  know_raw_peer();
  std::vector<RawPeer> before;
  for (const std::uint16_t lane : std::initializer_list<std::uint16_t>{0, 1}) {
    before.push_back(RawPeer::dial(address_of(9), a_.address()));
    before.back().hello("esx9", lane, 2);
    EXPECT_TRUE(before.back().next_as<wire::Welcome>().has_value());
  }
  RawPeer after = RawPeer::dial(address_of(9), a_.address());
  after.hello("esx9", 2, 3);
  EXPECT_TRUE(after.next_as<wire::Welcome>().has_value());
  for (RawPeer& peer : before) {
    const auto goodbye = peer.next_as<wire::Goodbye>();
    ASSERT_TRUE(goodbye.has_value());
    EXPECT_EQ(goodbye->reason, wire::GoodbyeReason::kReplaced);
    EXPECT_TRUE(peer.ended());
  }
  EXPECT_TRUE(after.send(request_frame(1, 7, 10), pattern(10, 7)));
  EXPECT_TRUE(world_.wait([&] { return a_.messages.size() == 1; }));
}

TEST_F(TcpRawTest, StrangersWithoutHelloAreFewAndGoAfterAWhile) {
  know_raw_peer();
  std::vector<RawPeer> strangers;
  for (std::uint32_t i = 0; i < kStrangersMin; ++i)
    strangers.push_back(RawPeer::dial(address_of(9), a_.address()));
  RawPeer late = RawPeer::dial(address_of(9), a_.address());
  const auto reject = late.next_as<wire::Reject>();
  ASSERT_TRUE(reject.has_value());
  EXPECT_EQ(reject->reason, wire::RejectReason::kNoRoom);
  EXPECT_EQ(errors().no_room, 1U);
  world_.pass(3100);
  for (RawPeer& stranger : strangers) EXPECT_TRUE(stranger.ended());
  enter();
}

TEST_F(TcpRawTest, WhoIsNoPeerGetsNoPlaceEvenWhereEverybodyIsAllowed) {
  know_raw_peer();
  ASSERT_TRUE(a_.settings().allow_all);
  for (int i = 0; i < 100; ++i) {
    RawPeer stranger = RawPeer::dial(address_of(8), a_.address());
    const auto reject = stranger.next_as<wire::Reject>();
    ASSERT_TRUE(reject.has_value()) << "before it says anything";
    EXPECT_EQ(reject->reason, wire::RejectReason::kUnknownHost);
    EXPECT_NE(reject->sentence.view().find(address_of(8).to_string()), std::string_view::npos);
  }
  EXPECT_EQ(errors().unknown_hosts, 100U);
  enter();
}

TEST_F(TcpRawTest, APeerThatKnocksTooOftenTakesNobodyElsesPlace) {
  know_raw_peer();
  a_.add_peer({.id = HostId(8), .name = "esx8", .address = address_of(8), .port = kTestPort});
  a_.apply();
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(RawPeer::dial(address_of(8), a_.address()));
  enter();  // one more connection of address 9
  EXPECT_EQ(errors().no_room, 100 - kStrangersMin);
  // Connections that say hello or break off at once use up the share, too. It fills again in the next second.
  crowd.clear();
  world_.pass(3100);
  const auto before = errors().no_room;
  for (int i = 0; i < 100; ++i) {
    RawPeer peer = RawPeer::dial(address_of(8), a_.address());
    peer.hello("esx8");
    EXPECT_TRUE(peer.next().has_value());
  }
  EXPECT_EQ(errors().no_room - before, 100 - kStrangersMin);
  enter();
}

TEST_F(TcpRawTest, ADiallerChecksWhoWelcomesIt) {
  Host b(world_, 2, TcpOptions{.lanes = 1});
  b.add_peer({.id = HostId(9), .name = "esx9", .address = address_of(9), .port = kTestPort});
  RawListener listener(address_of(9));
  b.apply();
  const auto answer = [&](const std::function<wire::Frame(const wire::Hello&)>& reply,
                          const std::string& trouble) {
    RawPeer peer = listener.accept();
    const auto hello = peer.next_as<wire::Hello>();
    ASSERT_TRUE(hello.has_value());
    EXPECT_EQ(hello->host, wire::HostName("esx2"));
    EXPECT_EQ(hello->lanes, 1);
    peer.send(reply(*hello));
    EXPECT_TRUE(peer.ended());
    // The longest pause is over, so the next call has been made.
    const std::string seen = world_.on_shard([&] { return b.state(HostId(9))->trouble; });
    EXPECT_NE(seen.find(trouble), std::string::npos) << seen;
    EXPECT_FALSE(world_.on_shard([&] { return b.tcp().is_up(HostId(9)); }));
    world_.pass(1001);
  };
  answer(
      [](const wire::Hello& hello) {
        return wire::Frame{.body = wire::Welcome{wire::HostName("esx5"), hello.id}};
      },
      "esx5");
  answer(
      [](const wire::Hello&) {
        return wire::Frame{.body = wire::Welcome{wire::HostName("esx9"), {9}}};
      },  // recorded long ago
      "another connection");
  answer(
      [](const wire::Hello&) {
        return wire::Frame{.body =
                               wire::Reject{wire::RejectReason::kWrongVersion, 5, wire::Sentence("speak 5")}};
      },
      "speak 5");
  answer([](const wire::Hello&) { return wire::Frame{.sequence = 0, .body = wire::Ping{}}; },
         "not expected here");
  world_.on_shard([&] {
    EXPECT_EQ(b.tcp().errors().unknown_hosts, 1U);
    EXPECT_EQ(b.tcp().errors().bad_sequence, 1U);
    EXPECT_EQ(b.tcp().errors().wrong_version, 1U);
    EXPECT_EQ(b.tcp().errors().bad_frames, 1U);
  });
  RawPeer peer = listener.accept_as("esx9");
  EXPECT_TRUE(world_.wait([&] { return b.tcp().is_up(HostId(9)); }));
}

TEST_F(TcpRawTest, ADiallerNamesTheVersionOfItsPeer) {
  RawListener listener(address_of(9));
  know_raw_peer();
  RawPeer peer = listener.accept();
  const auto hello = peer.next_as<wire::Hello>();
  ASSERT_TRUE(hello.has_value());
  wire::Head buffer;
  const auto head = wire::encode(wire::Welcome{.host = wire::HostName("esx9"), .id = hello->id}, buffer);
  Bytes welcome(head.begin(), head.end());
  welcome[wire::kHeaderBytes + 9] = std::byte{99};  // the low byte of the version, after the magic
  peer.send(welcome);
  EXPECT_TRUE(peer.ended());
  EXPECT_EQ(errors().wrong_version, 1U);
  EXPECT_NE(world_.on_shard([&] { return a_.state(HostId(9))->trouble; }).find("99"), std::string::npos);
}

TEST_F(TcpRawTest, APeerOfAnotherAddressFamilyIsNotDialled) {
  a_.add_peer(
      {.id = HostId(9), .name = "esx9", .address = IpAddress::parse("::1").value(), .port = kTestPort});
  a_.apply();
  EXPECT_TRUE(world_.wait(
      [&] { return a_.state(HostId(9))->trouble.find("one is IPv4, the other IPv6") != std::string::npos; }));
}

TEST_F(TcpRawTest, ADialWithoutAnAnswerIsGivenUp) {
  RawListener listener(address_of(9));
  know_raw_peer();
  RawPeer first = listener.accept();  // accepts the connection and sends nothing
  world_.pass(2900);
  EXPECT_EQ(world_.on_shard([&] { return a_.state(HostId(9))->trouble; }), "");
  world_.pass(200);
  EXPECT_NE(world_.on_shard([&] { return a_.state(HostId(9))->trouble; }).find("handshake"),
            std::string::npos);
  ASSERT_TRUE(first.next_as<wire::Hello>().has_value());
  EXPECT_TRUE(first.ended());
}

TEST_F(TcpRawTest, RedialsFastAtFirstAndEachSecondLater) {
  Host b(world_, 2, TcpOptions{.lanes = 1});
  b.add_peer({.id = HostId(9), .name = "esx9", .address = address_of(9), .port = kTestPort});
  RawListener listener(address_of(9));
  b.apply();
  const auto calls = [&](int milliseconds) {
    int count = 0;
    for (int i = 0; i < milliseconds / 50; ++i) {
      while (listener.turn_one_away()) ++count;
      world_.pass(50);
    }
    return count;
  };
  const int first = calls(1000);  // after 50, 150, 350, 750 ms
  EXPECT_GE(first, 3);
  EXPECT_LE(first, 6);
  calls(2000);
  const int later = calls(10'000);
  EXPECT_GE(later, 7);
  EXPECT_LE(later, 11);
}

// After a restart the peer is back in the middle of a pause, and connections of VMs wait for the lanes.
TEST_F(TcpRawTest, APeerThatComesBackIsDialledAtOnce) {
  know_raw_peer();
  world_.pass(3700);  // nobody listens: the next dial is 4550 ms after the first
  RawListener listener(address_of(9));
  const RawPeer back = enter();
  int dials = 0;
  for (int i = 0; i < 100; ++i) {
    world_.pass(1);
    while (listener.turn_one_away()) ++dials;
  }
  EXPECT_EQ(dials, 2) << "each lane once; turned away, it pauses again";
}

// Its share is 8 entries at once, and 8 in a second.
TEST_F(TcpRawTest, APeerThatComesBackAgainAndAgainIsDialledNoOftenerThanItMayEnter) {
  know_raw_peer();
  RawListener listener(address_of(9));
  const auto turn_away = [&] {
    int count = 0;
    while (listener.turn_one_away()) ++count;
    return count;
  };
  world_.pass(5000);  // the pauses are a second now
  turn_away();
  int dials = 0;
  for (int i = 0; i < 100; ++i) {
    RawPeer knocks = RawPeer::dial(address_of(9), a_.address());
    static_cast<void>(knocks.hello("esx9"));
    static_cast<void>(knocks.next());  // Welcome, or Reject
    world_.pass(10);
    dials += turn_away();
  }
  EXPECT_GE(dials, 2 * 8);
  EXPECT_LE(dials, 2 * (8 + 8 + 2)) << "and its own dials, one in a second";
}

TEST_F(TcpRawTest, ListensAsSoonAsTheAddressIsThere) {
  // Reserved for documentation, so nobody has it.
  a_.settings().address = IpAddress::parse("192.0.2.77").value();
  a_.apply();
  world_.on_shard([&] {
    EXPECT_FALSE(a_.tcp().listening());
    EXPECT_NE(a_.tcp().listen_trouble().find("192.0.2.77"), std::string::npos);
  });
  a_.settings().address = address_of(9);
  {
    RawListener squatter(address_of(9));
    a_.apply();
    EXPECT_NE(world_.on_shard([&] { return a_.tcp().listen_trouble(); }).find("another process"),
              std::string::npos);
  }
  ASSERT_TRUE(world_.wait([&] { return a_.tcp().listening(); }, 1500));
  EXPECT_EQ(world_.on_shard([&] { return a_.tcp().listen_trouble(); }), "");
}

// Between two signatures, the shard serves everything else.
TEST(TcpTlsEntry, OneHandshakeStepInATurn) {
  tls::TestCertificates certificates;
  test::ManualClock clock;
  const auto loop = shard::Loop::create({.spin = Duration{0}}, clock).value();
  NoInbound inbound;
  const auto tcp = Tcp::create({.host_name = "esx1", .lanes = 16, .tls = certificates.context("esx1")}, *loop,
                               clock, inbound)
                       .value();
  tcp->configure({.address = address_of(1),
                  .port = kTestPort,
                  .peers = {{.id = HostId(9), .name = "esx9", .address = address_of(9), .port = kTestPort}}});

  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  std::vector<RawPeer> peers;
  for (int i = 0; i < 20; ++i) {
    const RawPeer& peer = peers.emplace_back(RawPeer::dial(address_of(9), address_of(1)));
    SSL* const ssl = SSL_new(context);
    BIO* const hello = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), hello);
    EXPECT_LT(SSL_connect(ssl), 0);
    char* bytes = nullptr;
    const auto size = static_cast<std::size_t>(BIO_get_mem_data(hello, &bytes));
    ASSERT_EQ(::send(peer.fd(), bytes, size, 0), static_cast<ssize_t>(size));
    SSL_free(ssl);
  }
  SSL_CTX_free(context);

  const auto answered = [&] {
    return std::count_if(peers.begin(), peers.end(), [](const RawPeer& peer) {
      char byte = 0;
      return ::recv(peer.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    });
  };
  std::ptrdiff_t before = 0;
  for (int turn = 0; before < 20; ++turn) {
    ASSERT_LT(turn, 10'000);
    loop->turn(Duration{0});
    const std::ptrdiff_t now = answered();
    ASSERT_LE(now, before + 1) << "in turn " << turn;
    before = now;
  }
}

}  // namespace
}  // namespace pvrdma::transport::tcp
