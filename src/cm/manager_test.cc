#include "cm/manager.h"

#include <cerrno>
#include <string_view>

#include "cm/manager_fixture.h"

namespace pvrdma::cm::test {
namespace {

using ManagerTest = TwoManagers;

constexpr Program kOther = 1000;  // no other test object has its number

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string_view text_of(const Event& event, std::size_t length) {
  return {reinterpret_cast<const char*>(event.private_data.data()), length};
}

TEST_F(ManagerTest, ConnectsAndTellsBothEndsWhatTheirQpsNeed) {
  const Handle listener = listen();
  const Handle client = resolve();
  ASSERT_TRUE(client_.connect(client, kOwn(100), bytes_of("hello"), clock_.now()));
  carry();
  const Event request = only(server_);
  EXPECT_EQ(request.type, EventType::kConnectRequest);
  EXPECT_EQ(request.listener, listener);
  EXPECT_EQ(request.private_data.size(), kUserReqBytes);
  EXPECT_EQ(text_of(request, 5), "hello");
  EXPECT_EQ(request.peer.qpn, 100u);
  EXPECT_EQ(request.peer.responder_resources, 8) << "the peer's initiator depth";
  EXPECT_EQ(request.peer.initiator_depth, 4);
  EXPECT_EQ(server_.find(request.id)->remote.ip, ipv4(1));

  ASSERT_TRUE(server_.accept(request.id, kOwn(200), bytes_of("welcome"), clock_.now()));
  carry();
  const Event response = only(client_);
  EXPECT_EQ(response.type, EventType::kConnectResponse);
  EXPECT_EQ(text_of(response, 7), "welcome");
  ASSERT_TRUE(client_.confirm(client));
  carry();
  EXPECT_EQ(only(server_).type, EventType::kEstablished);

  const auto at_client = client_.qp_attributes(client);
  const auto at_server = server_.qp_attributes(request.id);
  ASSERT_TRUE(at_client && at_server);
  EXPECT_EQ(at_client->remote_qpn, 200u);
  EXPECT_EQ(at_server->remote_qpn, 100u);
  EXPECT_EQ(at_client->sq_psn, at_server->rq_psn) << "each sends from where the other receives";
  EXPECT_EQ(at_server->sq_psn, at_client->rq_psn);
  EXPECT_NE(at_client->sq_psn, at_client->rq_psn);
  EXPECT_EQ(at_client->max_rd_atomic, 4) << "no more than the peer takes";
  EXPECT_EQ(at_server->retry_count, 7);
  EXPECT_EQ(client_.deadline(), Instant::never()) << "an established connection needs no time";
  EXPECT_EQ(server_.deadline(), Instant::never());
}

// 7.4 of the design: a REQ's PSN is the one at which its sender receives. Two managers that had it the other
// way round would agree with each other, so this looks at the MAD.
TEST_F(ManagerTest, PsnOfAMessageIsWhereItsSenderReceives) {
  listen();
  const Handle client = connect();
  const auto sent = client_.take_datagrams();
  ASSERT_EQ(sent.size(), 1u);
  const std::uint32_t in_req = std::get<Req>(parse(sent[0].mad)->body).starting_psn;
  server_.receive(ipv4(1), ipv4(2), sent[0].mad, clock_.now());
  const Event request = only(server_);
  EXPECT_EQ(server_.qp_attributes(request.id)->sq_psn, in_req);
  ASSERT_TRUE(server_.accept(request.id, kOwn(1), {}, clock_.now()));
  const std::uint32_t in_rep = std::get<Rep>(parse(server_.take_datagrams()[0].mad)->body).starting_psn;
  EXPECT_EQ(server_.qp_attributes(request.id)->rq_psn, in_rep);
  EXPECT_EQ(client_.find(client)->local_psn, in_req);
}

TEST_F(ManagerTest, RefusesWhenNobodyListens) {
  connect();
  carry();
  const Event event = only(client_);
  EXPECT_EQ(event.type, EventType::kRejected);
  EXPECT_EQ(event.status, static_cast<int>(Reason::kInvalidServiceId));
  EXPECT_EQ(server_.connection_count(), 0u);
}

TEST_F(ManagerTest, RequestForAPortThatWasJustClosedWaitsForTheNextListener) {
  ASSERT_TRUE(server_.destroy(listen(), clock_.now()));
  connect();
  EXPECT_EQ(carry(), 1u) << "no answer yet";
  const Handle second = listen();
  EXPECT_EQ(only(server_).listener, second);
}

TEST_F(ManagerTest, RequestForAPortThatWasJustClosedIsRefusedInTheEnd) {
  ASSERT_TRUE(server_.destroy(listen(), clock_.now()));
  connect();
  carry();
  const Instant start = clock_.now();
  wait();
  carry();
  EXPECT_EQ(only(client_).status, static_cast<int>(Reason::kInvalidServiceId));
  EXPECT_EQ(clock_.now() - start, std::chrono::seconds(1));
  clock_.advance(std::chrono::seconds(20));
  connect();
  carry();
  EXPECT_EQ(only(client_).type, EventType::kRejected) << "closed long ago: at once";
}

TEST_F(ManagerTest, RequestThatItsSenderGivesUpIsNotKept) {
  ASSERT_TRUE(server_.destroy(listen(), clock_.now()));
  const Handle client = connect();
  carry();
  ASSERT_TRUE(client_.destroy(client, clock_.now()));
  carry();
  listen();
  EXPECT_TRUE(server_.take_events().empty());
}

TEST_F(ManagerTest, ProgramRejectsWithItsData) {
  listen();
  connect();
  carry();
  const Event request = only(server_);
  ASSERT_TRUE(server_.reject(request.id, 28, bytes_of("no"), clock_.now()));
  carry();
  const Event event = only(client_);
  EXPECT_EQ(event.type, EventType::kRejected);
  EXPECT_EQ(event.status, 28);
  EXPECT_EQ(text_of(event, 2), "no");
}

TEST_F(ManagerTest, RejectionThatIsLostIsRepeatedForARepeatedRequest) {
  listen();
  connect();
  carry();
  const Event request = only(server_);
  ASSERT_TRUE(server_.reject(request.id, 28, {}, clock_.now()));
  EXPECT_EQ(server_.take_datagrams().size(), 1u);  // lost
  ASSERT_TRUE(server_.destroy(request.id, clock_.now()));
  wait();
  carry();
  EXPECT_EQ(only(client_).type, EventType::kRejected);
  EXPECT_TRUE(server_.take_events().empty()) << "no second request";
}

TEST_F(ManagerTest, SlowProgramPutsItsPeerOff) {
  listen();
  connect();
  carry();
  const Event request = only(server_);
  const Instant first = client_.deadline();
  wait();  // the client repeats its request
  EXPECT_EQ(carry(), 2u) << "the request, and an MRA";
  EXPECT_TRUE(server_.take_events().empty());
  EXPECT_GT(client_.deadline() - first, std::chrono::seconds(60));
  ASSERT_TRUE(server_.accept(request.id, kOwn(200), {}, clock_.now()));
  carry();
  EXPECT_EQ(only(client_).type, EventType::kConnectResponse);
}

TEST_F(ManagerTest, PeerThatNeverAnswersIsUnreachable) {
  const Handle client = connect();
  for (int i = 0; i <= 15; ++i) {
    EXPECT_EQ(client_.take_datagrams().size(), 1u) << i;
    EXPECT_TRUE(client_.take_events().empty());
    wait();
  }
  const Event event = only(client_);
  EXPECT_EQ(event.type, EventType::kUnreachable);
  EXPECT_EQ(event.status, -ETIMEDOUT);
  ASSERT_TRUE(client_.destroy(client, clock_.now()));
  wait();
  EXPECT_EQ(client_.connection_count(), 0u);
}

TEST_F(ManagerTest, LostRtuIsSentAgain) {
  listen();
  const Handle client = connect();
  carry();
  const Event request = only(server_);
  ASSERT_TRUE(server_.accept(request.id, kOwn(200), {}, clock_.now()));
  carry();
  only(client_);
  ASSERT_TRUE(client_.confirm(client));
  EXPECT_EQ(client_.take_datagrams().size(), 1u);  // lost
  wait();
  carry();
  EXPECT_EQ(only(server_).type, EventType::kEstablished);
  EXPECT_EQ(server_.deadline(), Instant::never());
}

TEST_F(ManagerTest, MessageOnTheQpIsAnEarlyRtu) {
  listen();
  connect();
  carry();
  const Event request = only(server_);
  ASSERT_TRUE(server_.accept(request.id, kOwn(200), {}, clock_.now()));
  ASSERT_TRUE(server_.note_established(request.id));
  EXPECT_EQ(only(server_).type, EventType::kEstablished);
  ASSERT_TRUE(server_.note_established(request.id));
  EXPECT_TRUE(server_.take_events().empty()) << "only once";
}

TEST_F(ManagerTest, DisconnectsAndLeavesTimewait) {
  listen();
  const Ends ends = establish();
  ASSERT_TRUE(client_.disconnect(ends.client, clock_.now()));
  carry();
  EXPECT_EQ(only(client_).type, EventType::kDisconnected);
  EXPECT_EQ(only(server_).type, EventType::kDisconnected);
  EXPECT_TRUE(server_.disconnect(ends.server, clock_.now())) << "the other end may do so, too";
  EXPECT_EQ(carry(), 0u);
  wait();
  EXPECT_EQ(only(client_).type, EventType::kTimewaitExit);
  EXPECT_EQ(only(server_).type, EventType::kTimewaitExit);
}

TEST_F(ManagerTest, BothDisconnectAtOnce) {
  listen();
  const Ends ends = establish();
  ASSERT_TRUE(client_.disconnect(ends.client, clock_.now()));
  ASSERT_TRUE(server_.disconnect(ends.server, clock_.now()));
  carry();
  EXPECT_EQ(only(client_).type, EventType::kDisconnected);
  EXPECT_EQ(only(server_).type, EventType::kDisconnected);
}

TEST_F(ManagerTest, DestroyedIdOfAConnectionTellsThePeerEvenIfTheFirstDreqIsLost) {
  listen();
  const Ends ends = establish();
  ASSERT_TRUE(client_.destroy(ends.client, clock_.now()));
  EXPECT_EQ(client_.find(ends.client), nullptr);
  EXPECT_EQ(client_.take_datagrams().size(), 1u);  // lost
  wait();
  carry();
  EXPECT_EQ(only(server_).type, EventType::kDisconnected);
  EXPECT_TRUE(client_.take_events().empty()) << "nobody has the id";
  wait();
  EXPECT_EQ(client_.connection_count(), 0u);
}

TEST_F(ManagerTest, DreqOfAnUnknownConnectionIsAnswered) {
  const Mad dreq = build({9, Dreq{.local_id = 3, .remote_id = 4, .remote_qpn = 5}});
  server_.receive(ipv4(1), ipv4(2), dreq, clock_.now());
  const auto sent = server_.take_datagrams();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::get<Drep>(parse(sent[0].mad)->body).remote_id, 3u);
}

TEST_F(ManagerTest, StrangersChangeNothing) {
  listen();
  const Ends ends = establish();
  const Connection* const connection = server_.find(ends.server);
  const Mad dreq = build({9, Dreq{connection->remote_id, connection->local_id, 200}});
  server_.receive(ipv4(3), ipv4(2), dreq, clock_.now());
  EXPECT_EQ(server_.find(ends.server)->state, State::kEstablished);
  EXPECT_TRUE(server_.take_events().empty());
  server_.receive(ipv4(1), ipv4(2), dreq, clock_.now());
  EXPECT_EQ(only(server_).type, EventType::kDisconnected) << "the same MAD of the peer counts";
}

TEST_F(ManagerTest, SenderThatLiesAboutItsAddressIsRefused) {
  listen();
  connect();
  const auto sent = client_.take_datagrams();
  server_.receive(ipv4(3), ipv4(2), sent.at(0).mad, clock_.now());
  EXPECT_TRUE(server_.take_events().empty());
  EXPECT_EQ(server_.connection_count(), 1u) << "the listener";
}

TEST_F(ManagerTest, BacklogLimitsWhatPeersCanMake) {
  const Handle listener = listen(2);
  for (std::uint32_t i = 0; i < 5; ++i) connect(100 + i);
  carry();
  EXPECT_EQ(server_.find(listener)->pending.size(), 2u);
  const auto requests = server_.take_events();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(client_.take_events().size(), 3u) << "refused";
  server_.note_delivered(requests[0].id);
  connect(200);
  carry();
  EXPECT_EQ(server_.take_events().size(), 1u) << "room again";
}

TEST_F(ManagerTest, DestroyedListenerRefusesWhatItsProgramHasNotHeardOf) {
  const Handle listener = listen();
  connect();
  carry();
  ASSERT_TRUE(server_.destroy(listener, clock_.now()));
  carry();
  EXPECT_EQ(only(client_).type, EventType::kRejected);
  wait();
  wait();
  EXPECT_EQ(server_.connection_count(), 0u);
}

TEST_F(ManagerTest, NewRequestForAQpThatIsConnectedEndsTheOldConnection) {
  listen();
  const Ends ends = establish(100);
  ASSERT_TRUE(client_.destroy(ends.client, clock_.now()));
  (void)client_.take_datagrams();  // lost: the server does not know
  connect(100);
  const auto sent = client_.take_datagrams();
  for (const Datagram& each : sent) server_.receive(each.from, each.to, each.mad, clock_.now());
  carry();
  const Event refused = only(client_);
  EXPECT_EQ(refused.type, EventType::kRejected);
  EXPECT_EQ(refused.status, static_cast<int>(Reason::kStaleConnection));
  EXPECT_EQ(only(server_).type, EventType::kDisconnected);
}

TEST_F(ManagerTest, PortsBelongToOneIdUnlessBothShare) {
  const Handle first = *server_.create(0);
  const Handle second = *server_.create(0);
  ASSERT_TRUE(server_.bind(first, {ipv4(2), 80}));
  EXPECT_EQ(server_.bind(second, {{}, 80}).error().code, EADDRINUSE);
  EXPECT_EQ(server_.bind(second, {ipv4(9), 80}).error().code, EADDRNOTAVAIL);
  ASSERT_TRUE(server_.share_port(first, true));
  ASSERT_TRUE(server_.share_port(second, true));
  ASSERT_TRUE(server_.bind(second, {{}, 80}));
  EXPECT_EQ(server_.listen(first, 1).error().code, EADDRINUSE) << "a listener shares with nobody";
  ASSERT_TRUE(server_.destroy(second, clock_.now()));
  EXPECT_TRUE(server_.listen(first, 1));
}

TEST_F(ManagerTest, LoopbackIsEveryAddressToBindAndNoneToResolve) {
  const Gid ipv4_loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  const Gid ipv6_loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  std::uint16_t port = 80;
  for (const Gid& loopback : {ipv4_loopback, ipv6_loopback}) {
    const Handle bound = *server_.create(0);
    const Handle other = *server_.create(0);
    ASSERT_TRUE(server_.bind(bound, {loopback, port}));
    EXPECT_EQ(server_.find(bound)->local.ip, Gid{});
    EXPECT_EQ(server_.bind(other, {ipv4(2), port}).error().code, EADDRINUSE);
    EXPECT_FALSE(server_.resolve(other, {}, {loopback, 90}));
    ++port;
  }
}

TEST_F(ManagerTest, CommandsInTheWrongStateAreRefused) {
  const Handle id = *client_.create(0);
  EXPECT_EQ(client_.connect(id, {}, {}, clock_.now()).error().code, EINVAL);
  EXPECT_EQ(client_.accept(id, {}, {}, clock_.now()).error().code, EINVAL);
  EXPECT_EQ(client_.confirm(id).error().code, EINVAL);
  EXPECT_EQ(client_.reject(id, 28, {}, clock_.now()).error().code, EINVAL);
  EXPECT_EQ(client_.disconnect(id, clock_.now()).error().code, EINVAL);
  EXPECT_EQ(client_.note_established(id).error().code, EINVAL);
  EXPECT_EQ(client_.qp_attributes(id).error().code, EINVAL);
  EXPECT_EQ(client_.listen(id + 1, 1).error().code, ENOENT);
  EXPECT_EQ(
      client_.resolve(id, {}, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}, 1}).error().code,
      ENODEV);
  ASSERT_TRUE(client_.resolve(id, {}, {ipv4(2), 1}));
  const std::vector<std::byte> data(kUserReqBytes + 1);
  EXPECT_EQ(client_.connect(id, {}, data, clock_.now()).error().code, EINVAL);
  EXPECT_TRUE(client_.connect(id, {}, std::span(data).first(kUserReqBytes), clock_.now()));
}

// A refusal ends the connection at once for the peer, who may try again with the same QP.
TEST_F(ManagerTest, QpOfARefusedConnectionMayTryAgain) {
  listen();
  const Handle first = connect(100);
  carry();
  ASSERT_TRUE(server_.reject(only(server_).id, 28, {}, clock_.now()));
  carry();
  EXPECT_EQ(only(client_).status, 28);
  ASSERT_TRUE(client_.destroy(first, clock_.now()));
  connect(100);
  carry();
  EXPECT_EQ(only(server_).type, EventType::kConnectRequest);
}

TEST_F(ManagerTest, DisconnectBeforeTheConnectionIsUpChangesNothing) {
  const Handle listener = listen();
  const Handle client = connect();
  ASSERT_TRUE(client_.disconnect(client, clock_.now()));
  EXPECT_EQ(client_.find(client)->state, State::kReqSent);
  carry();
  const Event request = only(server_);
  ASSERT_TRUE(server_.disconnect(request.id, clock_.now()));
  EXPECT_EQ(server_.find(request.id)->state, State::kReqReceived);
  EXPECT_EQ(server_.disconnect(listener, clock_.now()).error().code, EINVAL);
  EXPECT_EQ(client_.disconnect(resolve(), clock_.now()).error().code, EINVAL);
}

TEST_F(ManagerTest, RejectionAnswersADisconnectRequest) {
  listen();
  const Ends ends = establish();
  ASSERT_TRUE(client_.disconnect(ends.client, clock_.now()));
  (void)client_.take_datagrams();
  const Connection* const connection = client_.find(ends.client);
  const Mad rej = build({7, Rej{.local_id = connection->remote_id,
                                .remote_id = connection->local_id,
                                .about = About::kOther,
                                .reason = static_cast<std::uint16_t>(Reason::kInvalidCommId)}});
  client_.receive(ipv4(2), ipv4(1), rej, clock_.now());
  EXPECT_EQ(only(client_).type, EventType::kDisconnected);
  EXPECT_EQ(client_.find(ends.client)->state, State::kTimewait);
}

TEST_F(ManagerTest, OrphanThatWaitsForItsPeerMakesRoom) {
  listen();
  const Ends ends = establish();
  ASSERT_TRUE(client_.destroy(ends.client, clock_.now()));
  fill(client_, kCreated.of_all - 1);
  EXPECT_EQ(client_.orphan_count(), 1u);
  ASSERT_TRUE(client_.create(kOther));
  EXPECT_EQ(client_.connection_count(), kCreated.of_all);
  EXPECT_EQ(client_.orphan_count(), 0u);
  EXPECT_EQ(client_.create(kOther).error().code, ENOMEM);
}

// The peer asks for a long timeout and many repetitions. They count while a program has the id.
TEST_F(ManagerTest, PeerDoesNotChooseHowLongAnOrphanLives) {
  listen();
  connect();
  auto sent = client_.take_datagrams();
  auto message = *parse(sent.at(0).mad);
  auto& req = std::get<Req>(message.body);
  req.local_timeout = 31;
  req.max_cm_retries = 15;
  server_.receive(ipv4(1), ipv4(2), build(message), clock_.now());
  const Event request = only(server_);
  ASSERT_TRUE(server_.accept(request.id, kOwn(200), {}, clock_.now()));
  ASSERT_TRUE(server_.destroy(request.id, clock_.now()));
  EXPECT_EQ(server_.orphan_count(), 1u);
  const Instant start = clock_.now();
  while (server_.deadline() != Instant::never()) {
    clock_.set(server_.deadline());
    server_.run_timers(clock_.now());
  }
  EXPECT_EQ(server_.orphan_count(), 0u);
  EXPECT_LT(clock_.now() - start, std::chrono::minutes(1));
}

TEST_F(ManagerTest, PeersLeaveRoomForPrograms) {
  listen();
  fill(server_, kRequested.of_all);
  connect();
  carry();
  EXPECT_EQ(only(client_).status, static_cast<int>(Reason::kNoResources));
  EXPECT_TRUE(server_.create(kOther));
}

TEST_F(ManagerTest, ProgramPaysForWhatItsIdsLeave) {
  listen();
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Ends ends = establish(100 + i, 200 + i);
    ASSERT_TRUE(client_.destroy(ends.client, clock_.now()));
    (void)client_.take_datagrams();  // lost: it waits for its peer
  }
  EXPECT_EQ(client_.orphan_count(), 3u);
  for (std::size_t i = 0; i < kCreated.of_program - 1; ++i) ASSERT_TRUE(client_.create(0));
  EXPECT_EQ(client_.orphan_count(), 1u) << "the oldest went first";
  ASSERT_TRUE(client_.create(0));
  EXPECT_EQ(client_.orphan_count(), 0u);
  EXPECT_EQ(client_.create(0).error().code, ENOMEM);
  EXPECT_TRUE(client_.create(1)) << "another program";
}

// Requests that a program has not taken count as its own, so peers cannot fill the table through one.
TEST_F(ManagerTest, ProgramPaysForTheRequestsOfItsListeners) {
  listen();
  for (std::size_t i = 1; i < kRequested.of_program; ++i) ASSERT_TRUE(server_.create(0));
  connect();
  carry();
  EXPECT_EQ(only(client_).status, static_cast<int>(Reason::kNoResources));
  EXPECT_TRUE(server_.create(0)) << "the program has room left";
}

// As a host with addresses of each kind has it: the kind of the peer's decides which one speaks to it.
TEST_F(ManagerTest, SourceIsOfTheKindOfTheDestination) {
  const Gid global{0xfd, 0, 0, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  const Gid link_local{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0xc1, 0, 1};
  const auto peer_of = [](Gid own) {
    own.back() = 2;
    return Endpoint{own, kPort};
  };
  Manager manager({.addresses = {ipv4(1), global, link_local}, .random = std::mt19937_64(1)});
  for (const Gid& own : {ipv4(1), global, link_local}) {
    const Handle id = *manager.create(0);
    ASSERT_TRUE(manager.resolve(id, {}, peer_of(own)));
    EXPECT_EQ(manager.find(id)->local.ip, own);
    EXPECT_TRUE(manager.bind(*manager.create(0), {own, kPort}));
  }
  const Handle id = *manager.create(0);
  EXPECT_EQ(manager.resolve(id, {link_local, 0}, peer_of(global)).error().code, EINVAL);
  Manager only_link_local({.addresses = {link_local}, .random = std::mt19937_64(1)});
  EXPECT_EQ(only_link_local.resolve(*only_link_local.create(0), {}, peer_of(global)).error().code, ENODEV);
}

TEST_F(ManagerTest, ConnectionsAreLimited) {
  fill(server_, kCreated.of_all);
  EXPECT_EQ(server_.create(kOther).error().code, ENOMEM);
}

}  // namespace
}  // namespace pvrdma::cm::test
