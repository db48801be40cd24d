// Slow, silent and greedy peers: refusals, pauses, keep-alive.
#include <gmock/gmock.h>

#include "support/log_of.h"
#include "transport/tcp/raw_peer.h"

namespace pvrdma::transport::tcp {
namespace {

TEST_F(TcpRawTest, FramesMayComeByteByByte) {
  know_raw_peer();
  RawPeer peer = enter();
  wire::Head buffer;
  const auto head = wire::encode(request_frame(1, 7, 9000), buffer);
  Bytes all(head.begin(), head.end());
  const Bytes payload = pattern(9000, 7);
  all.insert(all.end(), payload.begin(), payload.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool slowly = i < 300 || i > all.size() - 300;
    const std::size_t size = slowly ? 1 : 97;
    const std::size_t bytes = std::min(size, all.size() - i);
    ASSERT_TRUE(peer.send(std::span(all).subspan(i, bytes)));
    if (i % 5 == 0) world_.on_shard([] {});
    i += bytes - 1;
  }
  ASSERT_TRUE(world_.wait([&] { return a_.messages.size() == 1; }));
  EXPECT_EQ(a_.messages[0].bytes, payload);
}

TEST_F(TcpRawTest, AnswersToAbsentPeersAreDropped) {
  know_raw_peer();
  world_.on_shard([&] {
    for (const HostId host : {HostId(9), HostId(77)})
      a_.send(host, verbs::Response{.from = endpoint(1, 5), .to = endpoint(9, 5)}, {});
    EXPECT_FALSE(a_.send(HostId(77), a_write(HostId(77), 1, 1, 0).request, {}));
    a_.send(HostId(77), verbs::Datagram{.from = endpoint(1, 5), .to = endpoint(9, 5)}, {});
  });
  EXPECT_EQ(errors().responses_dropped, 2U);
  EXPECT_EQ(errors().datagrams_dropped, 1U);
}

TEST_F(TcpRawTest, ASilentPeerIsCutAndPingedBefore) {
  know_raw_peer();
  RawPeer peer = enter();
  world_.pass(1500);
  const auto ping = peer.next_as<wire::Ping>();
  ASSERT_TRUE(ping.has_value());
  EXPECT_EQ(ping->frames_received, 1U);
  EXPECT_EQ(errors().silent_peers, 0U);
  world_.pass(1600);
  EXPECT_EQ(errors().silent_peers, 1U);
  std::optional<wire::Frame> last;
  while (auto frame = peer.next()) last = frame;
  ASSERT_TRUE(last && std::holds_alternative<wire::Goodbye>(last->body));
  EXPECT_EQ(std::get<wire::Goodbye>(last->body).reason, wire::GoodbyeReason::kSilent);
}

TEST_F(TcpRawTest, AnyByteIsASignOfLife) {
  know_raw_peer();
  RawPeer peer = enter();
  EXPECT_TRUE(peer.send(request_frame(1, 7, 100'000)));  // its payload comes slowly
  const Bytes payload = pattern(100'000, 7);
  for (int i = 0; i < 5; ++i) {
    world_.pass(2500);
    EXPECT_TRUE(peer.send(std::span(payload).subspan(static_cast<std::size_t>(i) * 20'000, 20'000)));
  }
  ASSERT_TRUE(world_.wait([&] { return a_.messages.size() == 1; }));
  EXPECT_EQ(a_.messages[0].bytes, payload);
}

// A host with one lane to a peer that the test drives directly.
class TcpDialledTest : public testing::Test {
 protected:
  void SetUp() override {
    b_.add_peer({.id = HostId(9), .name = "esx9", .address = address_of(9), .port = kTestPort});
    b_.apply();
    peer_ = listener_.accept_as("esx9");
    ASSERT_TRUE(world_.wait([&] { return b_.all_up(HostId(9)); }));
  }

  RawListener listener_{address_of(9)};
  World world_;
  Host b_{world_, 2, TcpOptions{.lanes = 1}};
  std::optional<RawPeer> peer_;
};

TEST_F(TcpDialledTest, WhatIsGatheredLeavesWithoutAFlushWhenItIsMuch) {
  constexpr int kDatagrams = 17;  // 68 KiB
  world_.on_shard([&] {
    const Bytes data(4096);
    const Scattered payload(data, 1);
    const verbs::Datagram datagram{
        .from = endpoint(2, 5), .to = endpoint(9, 5), .bytes = 4096, .roce = RoceVersion::kV2};
    for (int i = 0; i < kDatagrams; ++i) b_.send(HostId(9), datagram, payload.spans());
    pollfd arrived{.fd = peer_->fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&arrived, 1, 30'000), 1) << "the loop has had no turn, and nobody flushed";
  });
  for (int i = 0; i < kDatagrams; ++i) EXPECT_TRUE(peer_->next_as<verbs::Datagram>().has_value()) << i;
}

TEST_F(TcpDialledTest, MessagesOfMiddlingSizeLeaveTogether) {
  constexpr std::uint32_t kMessages = 3;
  world_.on_shard([&] {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      const auto write = a_write(HostId(9), 2, i, 16 * 1024);
      EXPECT_TRUE(b_.send(HostId(9), write.request, Scattered(write.bytes, 4).spans()));
    }
    pollfd arrived{.fd = peer_->fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&arrived, 1, 0), 0) << "a packet of its own for each";
  });
  for (std::uint32_t i = 0; i < kMessages; ++i)
    EXPECT_TRUE(peer_->next_as<verbs::Request>().has_value()) << i;
}

// As behind a pulled cable: the sockets stay, and nothing arrives.
TEST_F(TcpDialledTest, AHostThatIsNotHeardIsToldBeforeTheLaneEnds) {
  const auto trouble = [&] { return world_.on_shard([&] { return b_.tcp().trouble(HostId(9)); }); };
  const std::string log = test::log_of([&] {
    world_.pass(1200);
    EXPECT_EQ(trouble(), "");
    world_.pass(100);
    EXPECT_EQ(trouble(), "nothing is heard from it now");
    EXPECT_TRUE(world_.on_shard([&] { return b_.tcp().is_up(HostId(9)); }));
    EXPECT_TRUE(peer_->send(wire::Frame{.sequence = 1, .body = wire::Ping{}}));
    EXPECT_TRUE(world_.wait([&] { return b_.tcp().trouble(HostId(9)).empty(); }, 1100));
    world_.pass(3100);
    EXPECT_EQ(trouble(), "not connected now");
  });
  EXPECT_THAT(log, testing::HasSubstr("warning path to host esx9: no byte has come from it for 1.25 s"));
  EXPECT_THAT(log, testing::HasSubstr("info path to host esx9: it is heard again"));
}

TEST_F(TcpRawTest, AFullLaneRefusesRequestsUntilItDrains) {
  RawListener listener(address_of(9), 64 * 1024);
  know_raw_peer();
  std::vector<RawPeer> lanes;
  for (int i = 0; i < 2; ++i) {
    std::uint16_t lane = 0;
    RawPeer peer = listener.accept_as("esx9", &lane);
    lanes.insert(lane == 0 ? lanes.begin() : lanes.end(), std::move(peer));
  }
  ASSERT_TRUE(world_.wait([&] { return a_.all_up(HostId(9)); }));
  const std::uint64_t lane = lane_hash(endpoint(1, 5), endpoint(9, 5)) % 2;
  std::uint32_t other_qpn = 6;
  while (lane_hash(endpoint(1, other_qpn), endpoint(9, other_qpn)) % 2 == lane) ++other_qpn;

  // The peer does not read, so at some point the lane accepts no more.
  constexpr std::uint32_t kMessages = 200;
  world_.on_shard([&] {
    for (std::uint32_t i = 0; i < kMessages; ++i)
      a_.post(a_write(HostId(9), 1, i, i % 3 == 0 ? 1500 : 150'000));
    EXPECT_GT(a_.busy, 0U);
    EXPECT_GT(a_.waiting(), 20U);
    const verbs::Datagram datagram{.from = endpoint(1, 5), .to = endpoint(9, 5)};
    EXPECT_FALSE(a_.send(HostId(9), datagram, {})) << "its sender waits, until the lane drains";
  });
  const std::uint64_t taken = world_.on_shard([&] { return a_.tcp().counters().requests; });
  const int ready = world_.on_shard([&] { return a_.ready; });
  world_.pass(500);
  EXPECT_EQ(world_.on_shard([&] { return a_.tcp().counters().requests; }), taken);
  EXPECT_EQ(world_.on_shard([&] { return a_.ready; }), ready);

  // Datagrams are taken up to a bound, and those of connection management up to a higher one. Their senders
  // are asked to wait, but not for a peer that has taken nothing for a while.
  world_.on_shard([&] {
    const Bytes data(4096);
    const Scattered payload(data, 1);
    verbs::Datagram datagram{
        .from = endpoint(1, 5), .to = endpoint(9, 5), .bytes = 4096, .roce = RoceVersion::kV2};
    while (a_.tcp().errors().datagrams_dropped == 0)
      EXPECT_TRUE(a_.send(HostId(9), datagram, payload.spans()));
    std::uint32_t gsi_from = 1;
    while (lane_hash(endpoint(1, gsi_from), endpoint(9, 1)) % 2 != lane) ++gsi_from;
    datagram.from = endpoint(1, gsi_from);
    datagram.to = endpoint(9, 1);
    const std::uint64_t before = a_.tcp().counters().datagrams;
    int sent = 0;
    for (; a_.tcp().errors().datagrams_dropped == 1 && sent < 10'000; ++sent)
      a_.send(HostId(9), datagram, payload.spans());
    EXPECT_GT(a_.tcp().counters().datagrams, before + 10);
    EXPECT_LT(sent, 10'000);
  });

  // Meanwhile the other lane works.
  world_.on_shard([&] {
    const auto write = a_write(HostId(9), 1, 5000, 20'000, other_qpn);
    const Scattered payload(write.bytes, 3);
    EXPECT_TRUE(a_.send(HostId(9), write.request, payload.spans()));
  });
  Bytes payload;
  const auto through = lanes[1 - lane].next(&payload);
  ASSERT_TRUE(through && std::holds_alternative<verbs::Request>(through->body));
  EXPECT_EQ(payload, pattern(20'000, 5000));

  // Now the peer reads: everything arrives, in order and unchanged.
  std::uint64_t sequence = 0;
  for (std::uint32_t next = 0; next < kMessages;) {
    const auto frame = lanes[lane].next(&payload);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->sequence, ++sequence);
    const auto* request = std::get_if<verbs::Request>(&frame->body);
    if (request == nullptr) continue;
    EXPECT_EQ(request->number.value, next);
    EXPECT_EQ(payload, pattern(request->bytes, next));
    ++next;
  }
  EXPECT_EQ(world_.on_shard([&] { return a_.waiting(); }), 0U);
  EXPECT_GT(world_.on_shard([&] { return a_.ready; }), ready);
}

TEST_F(TcpRawTest, AnAcceptorStopsReadingWhoeverDoesNotTakeItsAnswers) {
  Host b(world_, 2, TcpOptions{.lanes = 2});
  b.add_peer(a_.as_peer());
  a_.add_peer(b.as_peer());
  know_raw_peer();
  b.apply();
  ASSERT_TRUE(world_.wait([&] { return a_.all_up(b.id()) && b.all_up(a_.id()); }));
  constexpr std::uint32_t kBytes = 256 * 1024;
  a_.on_asked = [&](const verbs::Request& request, bool) {
    if (request.op != verbs::RequestOp::kRead) return;
    const Scattered payload(pattern(kBytes, request.number.value), 5);
    a_.send(HostId(9),
            verbs::Response{.from = request.to,
                            .to = request.from,
                            .number = request.number,
                            .op = verbs::RequestOp::kRead,
                            .bytes = kBytes},
            payload.spans());
  };
  RawPeer peer = RawPeer::dial(address_of(9), a_.address(), 64 * 1024);
  EXPECT_TRUE(peer.hello("esx9"));
  EXPECT_TRUE(peer.next_as<wire::Welcome>().has_value());
  constexpr std::uint32_t kReads = 150;
  for (std::uint32_t i = 0; i < kReads; ++i) {
    wire::Frame frame = request_frame(i + 1, i, kBytes);
    std::get<verbs::Request>(frame.body).op = verbs::RequestOp::kRead;
    ASSERT_TRUE(peer.send(frame));
  }
  world_.pass(500);
  const std::size_t asked = world_.on_shard([&] { return a_.messages.size(); });
  EXPECT_GT(asked, 3U);
  EXPECT_LT(asked, 60U);  // 4 MiB of socket buffers and 1 MiB of the host's own; then it reads no more

  // Meanwhile other peers are served.
  world_.on_shard([&] { b.post(a_write(a_.id(), 2, 1, 100'000)); });
  ASSERT_TRUE(world_.wait([&] {
    return std::any_of(a_.messages.begin(), a_.messages.end(),
                       [&](const Message& m) { return m.from == b.id(); });
  }));

  for (std::uint32_t i = 0; i < kReads;) {
    Bytes payload;
    const auto frame = peer.next(&payload);
    ASSERT_TRUE(frame.has_value());
    if (!std::holds_alternative<verbs::Response>(frame->body)) continue;
    EXPECT_EQ(payload, pattern(kBytes, i));
    ++i;
  }
  EXPECT_EQ(errors().responses_dropped, 0U);
  EXPECT_EQ(errors().silent_peers, 0U);
}

TEST_F(TcpRawTest, APeerThatTakesNoAnswersForLongIsSilent) {
  know_raw_peer();
  a_.on_asked = [&](const verbs::Request& request, bool) {
    const Scattered payload(pattern(256 * 1024, 1), 5);
    a_.send(HostId(9),
            verbs::Response{.from = request.to,
                            .to = request.from,
                            .number = request.number,
                            .op = verbs::RequestOp::kRead,
                            .bytes = 256 * 1024},
            payload.spans());
  };
  RawPeer peer = RawPeer::dial(address_of(9), a_.address(), 64 * 1024);
  EXPECT_TRUE(peer.hello("esx9"));
  for (std::uint32_t i = 0; i < 150; ++i) {
    wire::Frame frame = request_frame(i + 1, i, 256 * 1024);
    std::get<verbs::Request>(frame.body).op = verbs::RequestOp::kRead;
    ASSERT_TRUE(peer.send(frame));
  }
  ASSERT_TRUE(world_.wait([&] { return a_.tcp().errors().silent_peers == 1; }));
  ASSERT_TRUE(world_.wait([&] { return a_.state(HostId(9))->sessions_up == 0; }));
}

}  // namespace
}  // namespace pvrdma::transport::tcp
