// Lanes between the shards of two hosts. Each shard is a thread.
#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <thread>
#include <vector>

#include "tls/test_certificates.h"
#include "transport/tcp/held_datagrams.h"
#include "transport/tcp/host_lanes.h"
#include "transport/tcp/passed_lane.h"
#include "transport/tcp/raw_peer.h"

namespace pvrdma::transport::tcp {
namespace {

using namespace std::chrono_literals;

constexpr ShardNumber shard_number(std::uint32_t number) {
  return ShardNumber(static_cast<std::uint16_t>(number));
}

// A host with a Tcp for each shard.
class Shards {
 public:
  Shards(std::shared_ptr<test::ManualClock> clock, std::uint8_t number, std::size_t count,
         const TcpOptions& options, std::size_t mailbox_tasks = 1024) {
    for (std::uint32_t i = 0; i < count; ++i)
      worlds_.push_back(std::make_unique<World>(clock, mailbox_tasks));
    for (std::uint32_t i = 0; i < count; ++i) {
      TcpOptions own = options;
      own.shard = shard_number(i);
      own.shards = static_cast<std::uint32_t>(count);
      if (i == 0) {
        own.pass_lane = [this](ShardNumber to, std::unique_ptr<PassedLane> lane) {
          return pass(to, std::move(lane));
        };
      }
      hosts_.push_back(std::make_unique<Host>(*worlds_[i], number, own));
    }
  }
  // Shard 0 goes first: it passes lanes to the others. What is in a mailbox then runs before the Tcp goes.
  ~Shards() { hosts_.front().reset(); }

  int passed() const { return passed_; }  // on shard 0; whether they were taken or not
  std::size_t count() const { return hosts_.size(); }
  Host& host(std::size_t of) { return *hosts_[of]; }
  World& world(std::size_t of) { return *worlds_[of]; }
  template <typename Call>
  auto on(std::size_t of, Call call) {
    return worlds_[of]->on_shard([&] { return call(*hosts_[of]); });
  }

  void add_peers(const Shards& others) {
    for (const auto& host : hosts_)
      for (const auto& other : others.hosts_) host->add_peer(other->as_peer());
  }
  void apply() {
    for (const auto& host : hosts_) host->apply();
  }
  // Each shard has a path to each shard of the others from now on.
  void open_paths(const Shards& others) {
    for (std::size_t of = 0; of < count(); ++of) {
      on(of, [&](Host& host) {
        for (const auto& other : others.hosts_) host.keep_path(other->id());
      });
    }
  }
  void close_paths() {
    for (std::size_t of = 0; of < count(); ++of) on(of, [](Host& host) { host.close_paths(); });
  }

 private:
  bool pass(ShardNumber to, std::unique_ptr<PassedLane> lane) {
    ++passed_;
    if (to.value >= hosts_.size()) return false;
    return worlds_[to.value]->loop().post(
        shard::Task([host = hosts_[to.value].get(),
                     lane = std::move(lane)]() mutable { host->tcp().take(std::move(lane)); },
                    "a lane"));
  }

  int passed_ = 0;
  std::vector<std::unique_ptr<World>> worlds_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

// A task that keeps a shard from all else while this exists.
class BusyShard {
 public:
  explicit BusyShard(shard::Loop& loop) {
    EXPECT_TRUE(loop.post(shard::Task([state = state_] {
      state->is_busy = true;
      while (state->is_busy) std::this_thread::yield();
    })));
    while (!state_->is_busy) std::this_thread::yield();
  }
  ~BusyShard() { state_->is_busy = false; }
  BusyShard(const BusyShard&) = delete;
  BusyShard& operator=(const BusyShard&) = delete;

 private:
  struct State {
    std::atomic<bool> is_busy = false;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Advances the clock by a millisecond each time until `done`. Each shard has a turn in each millisecond: a
// handshake must not time out because the threads of the machine are busy.
[[nodiscard]] bool wait(std::initializer_list<Shards*> hosts, const std::function<bool()>& done) {
  for (int i = 0; i < 20000; ++i) {
    for (Shards* const host : hosts)
      for (std::size_t of = 0; of < host->count(); ++of) host->on(of, [](Host&) {});
    if (done()) return true;
    hosts.begin()[0]->world(0).clock().advance(1ms);
  }
  return false;
}

class TcpShardsTest : public testing::TestWithParam<Security> {
 protected:
  TcpOptions options(const std::string& host) {
    TcpOptions options{.lanes = 2};
    if (GetParam() == Security::kTls) options.tls = certificates_.context(host);
    return options;
  }
  static bool all_up(Shards& from, Shards& to) {
    for (std::size_t i = 0; i < from.count(); ++i)
      for (std::size_t j = 0; j < to.count(); ++j)
        if (!from.on(i, [&](Host& host) { return host.all_up(to.host(j).id()); })) return false;
    return true;
  }
  static void introduce(Shards& a, Shards& b) {
    a.add_peers(b);
    b.add_peers(a);
    a.apply();
    b.apply();
  }
  void connect(Shards& a, Shards& b) {
    introduce(a, b);
    a.open_paths(b);
    b.open_paths(a);
    ASSERT_TRUE(wait({&a, &b}, [&] { return all_up(a, b) && all_up(b, a); }));
  }

  tls::TestCertificates certificates_;
  std::shared_ptr<test::ManualClock> clock_ = std::make_shared<test::ManualClock>();
};

INSTANTIATE_TEST_SUITE_P(Tcp, TcpShardsTest, testing::Values(Security::kPlain, Security::kTls),
                         [](const auto& param) { return param.param == Security::kTls ? "Tls" : "Plain"; });

// The request's answer comes back by the lane of the request.
TEST_P(TcpShardsTest, EachShardReachesEachShardOfTheOtherHost) {
  Shards a(clock_, 1, 3, options("esx1"));
  Shards b(clock_, 2, 2, options("esx2"));
  connect(a, b);
  for (std::size_t i = 0; i < a.count(); ++i) {
    for (std::size_t j = 0; j < b.count(); ++j) {
      SCOPED_TRACE(fmt::format("from shard {} to shard {}", i, j));
      const HostId from = a.host(i).id();
      const HostId to = b.host(j).id();
      const auto number = static_cast<std::uint32_t>(1 + 10 * i + j);
      const Host::Outgoing out = a_write(to, static_cast<std::uint8_t>(from.value), number, 100'000);
      a.on(i, [&](Host& host) { host.post(out); });
      ASSERT_TRUE(wait({&a, &b}, [&] { return b.on(j, [](Host& host) { return !host.messages.empty(); }); }));
      b.on(j, [&](Host& host) {
        EXPECT_EQ(host.messages.size(), 1U);
        EXPECT_EQ(host.messages[0].from, from);
        EXPECT_EQ(host.messages[0].bytes, out.bytes);
        host.messages.clear();
        host.send(from,
                  verbs::Response{.from = out.request.to,
                                  .to = out.request.from,
                                  .number = out.request.number,
                                  .op = verbs::RequestOp::kWrite},
                  {});
        host.tcp().flush(clock_->now());
      });
      ASSERT_TRUE(wait({&a, &b}, [&] { return a.on(i, [](Host& host) { return !host.messages.empty(); }); }));
      a.on(i, [&](Host& host) {
        EXPECT_EQ(host.messages[0].from, to);
        EXPECT_EQ(std::get<verbs::Response>(host.messages[0].body).number.value, number);
        host.messages.clear();
      });
    }
  }
  for (std::size_t j = 0; j < b.count(); ++j) {
    b.on(j, [&](Host& host) {
      EXPECT_EQ(host.tcp().listening(), j == 0);
      const auto peers = host.tcp().peers();
      ASSERT_EQ(peers.size(), a.count());
      for (std::uint32_t i = 0; i < peers.size(); ++i) {
        EXPECT_EQ(peers[i].name, "esx1");
        EXPECT_EQ(peers[i].shard, shard_number(i));
        EXPECT_EQ(peers[i].sessions_up, 2U);
      }
      EXPECT_EQ(host.tcp().errors().responses_dropped, 0U);
      EXPECT_EQ(host.tcp().errors().no_room, 0U);
    });
  }
}

TEST_P(TcpShardsTest, AllLanesComeBackAfterABreak) {
  Shards a(clock_, 1, 2, options("esx1"));
  Shards b(clock_, 2, 2, options("esx2"));
  connect(a, b);
  EXPECT_EQ(cut_connections_to(b.host(0).address()), 2 * 4) << "two lanes between each two shards";
  ASSERT_TRUE(wait({&a, &b}, [&] {
    return a.on(1, [&](Host& host) { return host.restored >= 2; }) && all_up(a, b) && all_up(b, a);
  }));
}

TEST_P(TcpShardsTest, LanesBetweenOtherShardsAreDialledWhenTheyAreNeeded) {
  Shards a(clock_, 1, 2, options("esx1"));
  Shards b(clock_, 2, 2, options("esx2"));
  introduce(a, b);
  const auto lanes = [](Shards& from, std::size_t of, Shards& to, std::size_t to_shard) {
    return from.on(of, [&](Host& host) {
      const TcpPeerState* const state = host.state(to.host(to_shard).id());
      EXPECT_EQ(state->reconnects, 0U);
      return state->lanes_up;
    });
  };
  ASSERT_TRUE(wait({&a, &b}, [&] { return lanes(a, 0, b, 0) == 2 && lanes(b, 0, a, 0) == 2; }));
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = i == 0 ? 1 : 0; j < 2; ++j) EXPECT_EQ(lanes(a, i, b, j), 0U) << i << " to " << j;
  a.on(1, [&](Host& host) {
    EXPECT_EQ(host.tcp().trouble(b.host(1).id()), "") << "a path would have lanes at once";
    EXPECT_FALSE(host.tcp().is_opening(b.host(1).id()));
    host.post(a_write(b.host(1).id(), 101, 1, 1000));
    EXPECT_TRUE(host.tcp().is_opening(b.host(1).id())) << "retries are spared";
  });
  ASSERT_TRUE(wait({&a, &b}, [&] { return b.on(1, [](Host& host) { return host.messages.size() == 1; }); }));
  ASSERT_TRUE(wait({&a, &b}, [&] { return lanes(a, 1, b, 1) == 2; }));
  EXPECT_EQ(lanes(b, 1, a, 1), 0U) << "answers come back by the lane of the request";

  const auto let_pass = [&](Duration time) {
    for (const Instant end = clock_->now() + time; clock_->now() < end;) {
      clock_->advance(100ms);
      EXPECT_TRUE(wait({&a, &b}, [turns = 3]() mutable { return turns-- == 0; }));
    }
  };
  let_pass(kRestAfter + 3s);
  EXPECT_EQ(lanes(a, 1, b, 1), 2U) << "the path is still open";
  a.close_paths();
  let_pass(kRestAfter - 3s);
  EXPECT_EQ(lanes(a, 1, b, 1), 2U);
  let_pass(6s);
  EXPECT_EQ(lanes(a, 1, b, 1), 0U);
  EXPECT_EQ(lanes(a, 0, b, 0), 2U) << "shows that the host runs";
  ASSERT_TRUE(wait({&a, &b}, [&] {
    return b.on(1, [&](Host& host) { return host.state(a.host(1).id())->sessions_up == 0; });
  }));
  a.on(1, [&](Host& host) {
    EXPECT_FALSE(host.tcp().is_opening(b.host(1).id()));
    EXPECT_EQ(host.restored, 0);
    host.post(a_write(b.host(1).id(), 101, 2, 1000));
  });
  ASSERT_TRUE(wait({&a, &b}, [&] { return b.on(1, [](Host& host) { return host.messages.size() == 2; }); }));
  ASSERT_TRUE(wait({&a, &b}, [&] { return lanes(a, 1, b, 1) == 2; }));
}

// A connection manager repeats a lost message only after seconds.
TEST_P(TcpShardsTest, TheFirstDatagramsWaitForTheirLane) {
  Shards a(clock_, 1, 2, options("esx1"));
  Shards b(clock_, 2, 1, options("esx2"));
  introduce(a, b);
  const HostId to = b.host(0).id();
  constexpr verbs::Qpn kOther{7};
  struct Datagrams {
    verbs::Qpn qpn;
    std::size_t first_bytes;
    std::size_t count = 1;
  };
  // In one turn, so the lane does not come up in between.
  const auto send = [&](std::initializer_list<Datagrams> all) {
    a.on(1, [&](Host& host) {
      for (const auto& [qpn, first_bytes, count] : all) {
        for (std::size_t bytes = first_bytes; bytes < first_bytes + count; ++bytes) {
          const Bytes sent = pattern(bytes, 7);
          const Scattered payload(sent, 3);
          const verbs::Datagram datagram{.from = endpoint(101, 5),
                                         .to = endpoint(static_cast<std::uint8_t>(to.value), qpn.value),
                                         .bytes = static_cast<std::uint32_t>(bytes),
                                         .roce = RoceVersion::kV2};
          EXPECT_TRUE(host.send(to, datagram, payload.spans())) << "datagrams to other hosts do not wait";
        }
      }
      host.tcp().flush(clock_->now());
    });
  };
  constexpr std::size_t kMax = HeldDatagrams::kMax;
  constexpr std::size_t kOthersMax = HeldDatagrams::kOthersMax;
  a.on(1, [&](Host& host) { EXPECT_FALSE(host.tcp().is_opening(to)) << "nothing needs it"; });
  send({{kOther, 100, kOthersMax + 2}, {verbs::kGsiQpn, 200, kMax - kOthersMax + 3}});
  const auto arrived = [&] { return b.on(0, [](Host& host) { return host.messages.size(); }); };
  const auto lost = [&] { return a.on(1, [](Host& host) { return host.tcp().errors().datagrams_dropped; }); };
  ASSERT_TRUE(wait({&a, &b}, [&] { return arrived() == kMax; }));
  EXPECT_EQ(lost(), 5U);
  b.on(0, [&](Host& host) {
    for (std::size_t i = 0; i < kMax; ++i)
      EXPECT_EQ(host.messages[i].bytes, pattern(i < kOthersMax ? 100 + i : 200 + i - kOthersMax, 7));
  });
  send({{kOther, 300}});
  ASSERT_TRUE(wait({&a, &b}, [&] { return arrived() == kMax + 1; }));

  // A lane that breaks loses datagrams until it is back, as before.
  b.host(0).settings().address.reset();
  b.apply();
  ASSERT_TRUE(
      wait({&a, &b}, [&] { return a.on(1, [&](Host& host) { return !host.state(to)->trouble.empty(); }); }));
  send({{verbs::kGsiQpn, 400}});
  EXPECT_EQ(lost(), 6U);
  a.on(1, [&](Host& host) { EXPECT_FALSE(host.tcp().is_opening(to)) << "it has failed"; });
}

TEST_P(TcpShardsTest, APeerWithOneShardReachesShardZeroOnly) {
  Shards a(clock_, 1, 1, options("esx1"));
  Shards b(clock_, 2, 2, options("esx2"));
  a.host(0).add_peer(b.host(0).as_peer());
  b.add_peers(a);
  a.apply();
  b.apply();
  b.open_paths(a);
  ASSERT_TRUE(wait({&a, &b}, [&] {
    return a.on(0, [&](Host& host) { return host.all_up(b.host(0).id()); }) &&
           b.on(0, [&](Host& host) { return host.all_up(a.host(0).id()); });
  }));
  // A knows no shard 1 of B.
  ASSERT_TRUE(wait({&a, &b}, [&] {
    return b.on(1, [&](Host& host) { return !host.state(a.host(0).id())->trouble.empty(); });
  }));
  b.on(1, [&](Host& host) {
    EXPECT_NE(host.state(a.host(0).id())->trouble.find("host esx1 knows no shard 1 of host esx2 yet"),
              std::string::npos)
        << host.state(a.host(0).id())->trouble;
  });
}

// A host with two shards, and peers that the test drives directly.
class TcpShardsRawTest : public testing::Test {
 protected:
  void know_raw_peer() {
    for (std::size_t i = 0; i < 2; ++i)
      for (std::uint32_t j = 0; j < 2; ++j) a_.host(i).add_peer(raw_peer(j));
    a_.apply();
  }
  static TcpPeer raw_peer(std::uint32_t of_shard) {
    return {.id = HostId(9 + 100 * of_shard),
            .name = "esx9",
            .address = address_of(9),
            .port = kTestPort,
            .shard = shard_number(of_shard)};
  }
  static wire::Hello hello(std::uint32_t to, std::uint32_t from = 0) {
    return {.host = wire::HostName("esx9"),
            .id = {1, 2},
            .shard = shard_number(to),
            .from_shard = shard_number(from)};
  }
  RawPeer dial(const wire::Hello& hello) {
    RawPeer peer = RawPeer::dial(address_of(9), a_.host(0).address());
    EXPECT_TRUE(peer.hello(hello));
    return peer;
  }
  wire::Reject refused(const wire::Hello& hello) {
    RawPeer peer = dial(hello);
    const auto reject = peer.next_as<wire::Reject>();
    EXPECT_TRUE(reject.has_value());
    EXPECT_TRUE(peer.ended());
    return reject.value_or(wire::Reject{});
  }
  wire::Frame request_frame(std::uint32_t of_shard, std::uint64_t sequence, std::size_t bytes) {
    return {.sequence = sequence,
            .segment = kSegment,
            .body = a_write(a_.host(of_shard).id(), 9, 7, bytes).request};
  }
  void pass(int milliseconds) {
    EXPECT_TRUE(wait({&a_}, [left = milliseconds]() mutable { return left-- == 0; }));
  }
  TcpErrors errors(std::size_t of_shard) {
    return a_.on(of_shard, [](Host& host) { return host.tcp().errors(); });
  }

  std::shared_ptr<test::ManualClock> clock_ = std::make_shared<test::ManualClock>();
  Shards a_{clock_, 1, 2, TcpOptions{.lanes = 1}, 4};
};

TEST_F(TcpShardsRawTest, TheWelcomeComesFromTheShardThatIsWanted) {
  know_raw_peer();
  RawPeer peer = dial(hello(1, 1));
  const auto welcome = peer.next_as<wire::Welcome>();
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->host, wire::HostName("esx1"));
  EXPECT_EQ(welcome->id, (wire::HelloId{1, 2}));
  EXPECT_TRUE(peer.send(request_frame(1, 1, 100), pattern(100, 7)));
  ASSERT_TRUE(wait({&a_}, [&] { return a_.on(1, [](Host& host) { return host.messages.size() == 1; }); }));
  EXPECT_EQ(a_.on(1, [](Host& host) { return host.messages[0].from; }), HostId(109));
  EXPECT_EQ(a_.on(0, [](Host& host) { return host.messages.size(); }), 0U);
}

TEST_F(TcpShardsRawTest, AHelloOfVersion2LeadsToShardZero) {
  know_raw_peer();
  RawPeer peer = dial(hello(0));
  EXPECT_TRUE(peer.next_as<wire::Welcome>().has_value());
  EXPECT_TRUE(peer.send(request_frame(0, 1, 100), pattern(100, 7)));
  ASSERT_TRUE(wait({&a_}, [&] { return a_.on(0, [](Host& host) { return host.messages.size() == 1; }); }));
  EXPECT_EQ(a_.on(0, [](Host& host) { return host.messages[0].from; }), HostId(9));
}

TEST_F(TcpShardsRawTest, AShardThatDoesNotExistIsRefused) {
  know_raw_peer();
  const wire::Reject reject = refused(hello(2));
  EXPECT_EQ(reject.reason, wire::RejectReason::kNoRoom);
  EXPECT_NE(reject.sentence.view().find("does not exist"), std::string_view::npos);
  EXPECT_EQ(errors(0).no_room, 1U);
}

TEST_F(TcpShardsRawTest, AFullMailboxRefusesTheLane) {
  know_raw_peer();
  shard::Loop& loop = a_.world(1).loop();
  const auto post_nothing = [&] { return loop.post(shard::Task([] {})); };
  {
    const BusyShard busy(loop);
    while (post_nothing()) {
    }
    EXPECT_EQ(refused(hello(1)).reason, wire::RejectReason::kNoRoom);
    EXPECT_EQ(errors(0).no_room, 1U);
  }
  while (!post_nothing()) std::this_thread::yield();
  EXPECT_TRUE(dial(hello(1)).next_as<wire::Welcome>().has_value());
}

// It may have to wait in the mailbox for so long that its dialler has given up.
TEST_F(TcpShardsRawTest, ALaneThatWaitedTooLongIsRefused) {
  know_raw_peer();
  auto busy = std::make_unique<BusyShard>(a_.world(1).loop());
  RawPeer peer = dial(hello(1));
  ASSERT_TRUE(a_.world(0).wait([&] { return a_.passed() == 1; }));
  clock_->advance(kHandshakeTime);
  busy.reset();
  const auto reject = peer.next_as<wire::Reject>();
  ASSERT_TRUE(reject.has_value());
  EXPECT_NE(reject->sentence.view().find("too busy"), std::string_view::npos) << reject->sentence.view();
  EXPECT_EQ(errors(1).no_room, 1U);
}

TEST_F(TcpShardsRawTest, TheShardAsksItsOwnSettings) {
  a_.host(0).add_peer(raw_peer(0));
  a_.host(0).add_peer(raw_peer(1));
  a_.apply();
  wire::Reject reject = refused(hello(1));
  EXPECT_EQ(reject.reason, wire::RejectReason::kUnknownHost);
  EXPECT_EQ(reject.sentence.view(), "host esx1 knows no host esx9: add it to the cluster first");
  a_.host(1).add_peer(raw_peer(0));
  a_.apply();
  reject = refused(hello(1, 1));
  EXPECT_EQ(reject.sentence.view(), "host esx1 knows no shard 1 of host esx9 yet");
  EXPECT_EQ(errors(1).unknown_hosts, 2U);
  a_.host(1).add_peer(raw_peer(1));
  a_.host(1).settings().allow_all = false;
  a_.apply();
  reject = refused(hello(1, 1));
  EXPECT_EQ(reject.reason, wire::RejectReason::kNotAllowed);
  EXPECT_EQ(errors(1).not_allowed, 1U);
  EXPECT_EQ(errors(0).not_allowed, 0U);
  a_.host(1).settings().allow_all = true;
  a_.apply();
  EXPECT_TRUE(dial(hello(1, 1)).next_as<wire::Welcome>().has_value());
}

TEST_F(TcpShardsRawTest, AHelloOfVersion3BetweenShardsZeroIsRefused) {
  know_raw_peer();
  wire::Head buffer;
  const auto head = wire::encode(hello(1), buffer);
  Bytes bytes(head.begin(), head.end());
  bytes[wire::kHeaderBytes + 33] = std::byte{0};  // the low byte of the shard
  RawPeer peer = RawPeer::dial(address_of(9), a_.host(0).address());
  EXPECT_TRUE(peer.send(bytes));
  const auto reject = peer.next_as<wire::Reject>();
  ASSERT_TRUE(reject.has_value());
  EXPECT_EQ(reject->reason, wire::RejectReason::kBadHello);
  EXPECT_EQ(errors(0).bad_frames, 1U);
}

TEST_F(TcpShardsRawTest, ADiallerThatDoesNotWaitForItsWelcomeIsNotPassedOn) {
  know_raw_peer();
  wire::Head buffer;
  const auto head = wire::encode(hello(1), buffer);
  Bytes bytes(head.begin(), head.end());
  const auto request = wire::encode(request_frame(1, 1, 0), buffer);
  bytes.insert(bytes.end(), request.begin(), request.end());
  RawPeer peer = RawPeer::dial(address_of(9), a_.host(0).address());
  EXPECT_TRUE(peer.send(bytes));
  EXPECT_TRUE(peer.ended());
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(a_.on(i, [](Host& host) { return host.pieces; }), 0U);
}

// After a restart the peer is back in the middle of a pause.
TEST_F(TcpShardsRawTest, AShardThatComesBackIsDialledAtOnce) {
  know_raw_peer();
  a_.on(1, [](Host& host) { host.keep_path(HostId(109)); });
  pass(3700);  // nobody listens: the next dial is 4550 ms after the first
  RawListener listener(address_of(9));
  RawPeer back = dial(hello(1, 1));
  EXPECT_TRUE(back.next_as<wire::Welcome>().has_value());
  RawPeer dialled = listener.accept();
  const auto hello = dialled.next_as<wire::Hello>();
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->host, wire::HostName("esx1"));
  EXPECT_EQ(hello->shard, shard_number(1));
  EXPECT_EQ(hello->from_shard, shard_number(1));
  pass(100);
  EXPECT_FALSE(listener.turn_one_away()) << "one lane to that shard, and none to shard 0";
}

// Its share is 8 entries at once, and 8 in a second: one lane between each two shards, twice.
TEST_F(TcpShardsRawTest, APassedLaneGivesItsPlaceBack) {
  know_raw_peer();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(dial(hello(1, 1)).next_as<wire::Welcome>().has_value()) << i;
    EXPECT_EQ(refused(hello(2)).reason, wire::RejectReason::kNoRoom);
    pass(300);
  }
  EXPECT_EQ(errors(0).no_room, 20U) << "only the shard that does not exist";
}

TEST(TcpShardsTls, CertificatesAreCheckedBeforeALaneIsPassedOn) {
  tls::TestCertificates certificates;
  const auto clock = std::make_shared<test::ManualClock>();
  int passed = 0;
  World world(clock);
  Host a(world, 1,
         TcpOptions{.lanes = 1,
                    .tls = certificates.context("esx1"),
                    .pass_lane = [&](ShardNumber, std::unique_ptr<PassedLane>) { return ++passed, false; }});
  Host b(world, 2, TcpOptions{.lanes = 1, .tls = certificates.context("esx3")});
  a.add_peer(b.as_peer());
  TcpPeer other_shard = a.as_peer();
  other_shard.shard = shard_number(1);
  b.add_peer(other_shard);
  a.apply();
  b.apply();
  world.on_shard([&] { b.keep_path(a.id()); });
  ASSERT_TRUE(world.wait([&] { return !b.state(a.id())->trouble.empty(); }));
  EXPECT_NE(world.on_shard([&] { return b.state(a.id())->trouble; }).find("the certificate is for esx3"),
            std::string::npos);
  EXPECT_EQ(passed, 0);
}

}  // namespace
}  // namespace pvrdma::transport::tcp
