// Ids for datagrams: one end asks for a QP, the other gives it.
#include <cerrno>
#include <string_view>

#include "cm/manager_fixture.h"

namespace pvrdma::cm::test {
namespace {

class DatagramIdsTest : public TwoManagers {
 protected:
  Handle listen_for_datagrams(std::uint32_t backlog = 4) {
    const Handle id = *server_.create(0, PortSpace::kUdp);
    EXPECT_TRUE(server_.bind(id, {{}, kPort}));
    EXPECT_TRUE(server_.listen(id, backlog));
    return id;
  }

  Handle ask(std::string_view data = {}) {
    const Handle id = *client_.create(0, PortSpace::kUdp);
    EXPECT_TRUE(client_.resolve(id, {}, {ipv4(2), kPort}));
    EXPECT_TRUE(client_.connect(id, {}, bytes_of(data), clock_.now()));
    return id;
  }

  static std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
  static std::string_view text_of(const Event& event, std::size_t length) {
    return {reinterpret_cast<const char*>(event.private_data.data()), length};
  }
};

TEST_F(DatagramIdsTest, AskForAQpAndGetIt) {
  const Handle listener = listen_for_datagrams();
  const Handle client = ask("hello");
  EXPECT_EQ(carry(), 1u);
  const Event request = only(server_);
  EXPECT_EQ(request.type, EventType::kConnectRequest);
  EXPECT_EQ(request.space, PortSpace::kUdp);
  EXPECT_EQ(request.listener, listener);
  EXPECT_EQ(request.private_data.size(), kUserSidrReqBytes);
  EXPECT_EQ(text_of(request, 5), "hello");
  EXPECT_EQ(server_.find(request.id)->remote.ip, ipv4(1));

  ASSERT_TRUE(server_.accept(request.id, {.qpn = 200}, bytes_of("welcome"), clock_.now()));
  EXPECT_EQ(carry(), 1u) << "nothing confirms the answer";
  const Event answer = only(client_);
  EXPECT_EQ(answer.type, EventType::kEstablished);
  EXPECT_EQ(answer.id, client);
  EXPECT_EQ(answer.peer.qpn, 200u);
  EXPECT_EQ(answer.peer.qkey, kUdpQkey);
  EXPECT_EQ(text_of(answer, 7), "welcome");
  EXPECT_TRUE(server_.take_events().empty());
  EXPECT_EQ(client_.deadline(), Instant::never());

  ASSERT_TRUE(client_.disconnect(client, clock_.now())) << "without effect, as in the kernel";
  ASSERT_TRUE(client_.destroy(client, clock_.now()));
  EXPECT_EQ(carry(), 0u) << "there is no connection to end";
  EXPECT_EQ(client_.connection_count(), 0u);
}

TEST_F(DatagramIdsTest, AreRefusedWhenNobodyListens) {
  listen();  // for connections
  const Handle client = ask();
  carry();
  const Event event = only(client_);
  EXPECT_EQ(event.type, EventType::kUnreachable);
  EXPECT_EQ(event.status, static_cast<int>(SidrStatus::kUnsupported));
  EXPECT_FALSE(client_.accept(client, {}, {}, clock_.now()));
  EXPECT_TRUE(client_.destroy(client, clock_.now()));
  EXPECT_EQ(client_.connection_count(), 0u);
  EXPECT_EQ(server_.connection_count(), 1u);
}

TEST_F(DatagramIdsTest, ProgramRefuses) {
  listen_for_datagrams();
  ask();
  carry();
  ASSERT_TRUE(server_.reject(only(server_).id, 28, bytes_of("no"), clock_.now()));
  carry();
  const Event event = only(client_);
  EXPECT_EQ(event.type, EventType::kUnreachable);
  EXPECT_EQ(event.status, static_cast<int>(SidrStatus::kRejected));
  EXPECT_EQ(text_of(event, 2), "no");
}

// All QPs of ids for datagrams have one Q_Key. Linux refuses an answer with another one, too.
TEST_F(DatagramIdsTest, AnswerWithAForeignQkeyIsARefusal) {
  const Handle client = ask();
  const auto asked = client_.take_datagrams();
  const std::uint32_t id = std::get<SidrReq>(parse(asked.at(0).mad)->body).request_id;
  const SidrRep rep{.request_id = id, .qpn = 5, .qkey = kUdpQkey + 1};
  client_.receive(ipv4(2), ipv4(1), build({1, rep}), clock_.now());
  const Event event = only(client_);
  EXPECT_EQ(event.type, EventType::kUnreachable);
  EXPECT_EQ(event.status, -EINVAL);
  EXPECT_EQ(event.peer.qpn, 0u);
  EXPECT_EQ(client_.find(client)->state, State::kClosed);
  EXPECT_EQ(client_.deadline(), Instant::never());
}

TEST_F(DatagramIdsTest, ProgramThatEndsRefuses) {
  const Handle listener = listen_for_datagrams();
  ask();
  carry();
  ASSERT_TRUE(server_.destroy(listener, clock_.now()));
  carry();
  EXPECT_EQ(only(client_).status, static_cast<int>(SidrStatus::kRejected));
  wait();
  EXPECT_EQ(server_.connection_count(), 0u) << "of the request nothing is left";
}

TEST_F(DatagramIdsTest, AnswerThatIsLostIsRepeatedForARepeatedRequest) {
  listen_for_datagrams();
  ask();
  carry();
  const Event request = only(server_);
  wait();
  carry();
  EXPECT_TRUE(server_.take_events().empty()) << "the program has not decided yet";
  ASSERT_TRUE(server_.accept(request.id, {.qpn = 200}, {}, clock_.now()));
  EXPECT_EQ(server_.take_datagrams().size(), 1u);  // lost
  ASSERT_TRUE(server_.destroy(request.id, clock_.now()));
  wait();
  EXPECT_EQ(carry(), 2u);
  EXPECT_EQ(only(client_).peer.qpn, 200u);
  EXPECT_TRUE(server_.take_events().empty());
  wait();
  EXPECT_EQ(server_.orphan_count(), 0u);
}

// The client sends its request 16 times. Only its last answer arrives.
TEST_F(DatagramIdsTest, AnswerIsRepeatedAsLongAsThePeerAsks) {
  listen_for_datagrams();
  ask();
  carry();
  ASSERT_TRUE(server_.accept(only(server_).id, {.qpn = 200}, {}, clock_.now()));
  const Instant end = server_.deadline();
  for (int lost = 0; lost < 15; ++lost) {
    EXPECT_EQ(server_.take_datagrams().size(), 1u) << lost;
    wait();
    for (const Datagram& each : client_.take_datagrams())
      server_.receive(each.from, each.to, each.mad, clock_.now());
    ASSERT_TRUE(server_.take_events().empty()) << "a second id, after " << lost << " lost answers";
  }
  carry();
  EXPECT_EQ(only(client_).peer.qpn, 200u);
  EXPECT_EQ(server_.deadline(), end) << "no peer chooses how long the answer is kept";
}

// The first answer and all repeated requests but the last are lost.
TEST_F(DatagramIdsTest, AnswerIsKeptWhileRequestsAreLost) {
  listen_for_datagrams();
  ask();
  carry();
  ASSERT_TRUE(server_.accept(only(server_).id, {.qpn = 200}, {}, clock_.now()));
  EXPECT_EQ(server_.take_datagrams().size(), 1u);
  for (int lost = 0; lost < 14; ++lost) {
    wait();
    EXPECT_EQ(client_.take_datagrams().size(), 1u);
  }
  wait();
  EXPECT_EQ(carry(), 2u);
  EXPECT_TRUE(server_.take_events().empty());
  EXPECT_EQ(only(client_).peer.qpn, 200u);
}

TEST_F(DatagramIdsTest, IdThatHasAnsweredStays) {
  listen_for_datagrams();
  ask();
  carry();
  const Event request = only(server_);
  ASSERT_TRUE(server_.accept(request.id, {.qpn = 200}, {}, clock_.now()));
  carry();
  wait();
  ASSERT_NE(server_.find(request.id), nullptr);
  EXPECT_EQ(server_.find(request.id)->state, State::kEstablished);
  EXPECT_EQ(server_.deadline(), Instant::never());
}

TEST_F(DatagramIdsTest, RequestThatNobodyAnswersIsGivenUp) {
  const Handle client = ask();
  int requests = 0;
  while (client_.deadline() != Instant::never()) {
    requests += static_cast<int>(client_.take_datagrams().size());
    wait();
  }
  EXPECT_EQ(requests, 16);
  const Event event = only(client_);
  EXPECT_EQ(event.type, EventType::kUnreachable);
  EXPECT_EQ(event.status, -ETIMEDOUT);
  EXPECT_TRUE(client_.take_datagrams().empty());
  EXPECT_TRUE(client_.destroy(client, clock_.now()));
  EXPECT_EQ(client_.connection_count(), 0u);
}

TEST_F(DatagramIdsTest, PortsAreOthersThanThoseOfConnections) {
  const Handle datagrams = listen_for_datagrams();
  const Handle connections = listen();
  ask();
  carry();
  EXPECT_EQ(only(server_).listener, datagrams);
  connect();
  carry();
  EXPECT_EQ(only(server_).listener, connections);
  const Handle second = *server_.create(0, PortSpace::kUdp);
  EXPECT_EQ(server_.bind(second, {{}, kPort}).error().code, EADDRINUSE);
}

TEST_F(DatagramIdsTest, RequestsOfPeersAreLimited) {
  listen_for_datagrams(2);
  for (int i = 0; i < 3; ++i) ask();
  carry();
  EXPECT_EQ(server_.take_events().size(), 2u);
  EXPECT_EQ(only(client_).status, static_cast<int>(SidrStatus::kNoQp));
}

// Each kind of message knows only ids of its own kind.
TEST_F(DatagramIdsTest, MessagesOfConnectionsDoNotReachThem) {
  const Handle client = ask();
  const auto asked = client_.take_datagrams();
  const std::uint32_t id = std::get<SidrReq>(parse(asked.at(0).mad)->body).request_id;
  for (const Body& body :
       std::initializer_list<Body>{Rep{.local_id = 9, .remote_id = id}, Rej{.local_id = 9, .remote_id = id},
                                   Dreq{9, id, 0}, Drep{9, id}, Rtu{9, id}, Mra{9, id}})
    client_.receive(ipv4(2), ipv4(1), build({1, body}), clock_.now());
  EXPECT_TRUE(client_.take_events().empty());
  EXPECT_EQ(client_.find(client)->state, State::kReqSent);
  const SidrRep rep{.request_id = id, .qpn = 5};
  client_.receive(ipv4(3), ipv4(1), build({1, rep}), clock_.now());
  EXPECT_TRUE(client_.take_events().empty()) << "a stranger answers";

  const Handle connection = connect();
  const std::uint32_t other = client_.find(connection)->local_id;
  client_.receive(ipv4(2), ipv4(1), build({1, SidrRep{.request_id = other}}), clock_.now());
  EXPECT_TRUE(client_.take_events().empty());
}

TEST_F(DatagramIdsTest, SenderThatLiesAboutItsAddressIsRefused) {
  listen_for_datagrams();
  ask();
  for (const Datagram& each : client_.take_datagrams())
    server_.receive(ipv4(3), each.to, each.mad, clock_.now());
  EXPECT_TRUE(server_.take_events().empty());
  const auto refused = server_.take_datagrams();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].to, ipv4(3));
}

}  // namespace
}  // namespace pvrdma::cm::test
