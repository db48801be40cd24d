// Two managers with the wire between them in the test's hand.
#pragma once

#include <gtest/gtest.h>
#include <random>
#include <utility>
#include <vector>

#include "cm/manager.h"
#include "support/manual_clock.h"

namespace pvrdma::cm::test {

inline Gid ipv4(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0, last};
}

class TwoManagers : public ::testing::Test {
 protected:
  static constexpr std::uint16_t kPort = 7174;

  TwoManagers()
      : client_({.addresses = {ipv4(1)}, .ca_guid = 1, .random = std::mt19937_64(1)}),
        server_({.addresses = {ipv4(2)}, .ca_guid = 2, .random = std::mt19937_64(2)}) {}

  Handle listen(std::uint32_t backlog = 4) {
    const Handle id = *server_.create(0);
    EXPECT_TRUE(server_.bind(id, {{}, kPort}));
    EXPECT_TRUE(server_.listen(id, backlog));
    return id;
  }

  // Makes ids until the manager has `count` besides orphans. Each program makes as many as it may.
  static void fill(Manager& manager, std::size_t count) {
    for (Program program = 1; manager.connection_count() - manager.orphan_count() < count; ++program) {
      for (std::size_t i = 0; i < kCreated.of_program; ++i) {
        if (manager.connection_count() - manager.orphan_count() == count) return;
        ASSERT_TRUE(manager.create(program));
      }
    }
  }

  Handle resolve(std::uint16_t port = kPort) {
    const Handle id = *client_.create(0);
    EXPECT_TRUE(client_.resolve(id, {}, {ipv4(2), port}));
    return id;
  }

  Handle connect(std::uint32_t qpn = 100) {
    const Handle id = resolve();
    EXPECT_TRUE(client_.connect(id, kOwn(qpn), {}, clock_.now()));
    return id;
  }

  static Parameters kOwn(std::uint32_t qpn) {
    return {.qpn = qpn, .responder_resources = 4, .initiator_depth = 8, .retry_count = 7, .rnr_retry = 6};
  }

  // Carries what both have to send, until neither has. Returns the number of datagrams.
  std::size_t carry() {
    std::size_t count = 0;
    while (true) {
      const auto to_server = client_.take_datagrams();
      const auto to_client = server_.take_datagrams();
      if (to_server.empty() && to_client.empty()) return count;
      count += to_server.size() + to_client.size();
      for (const Datagram& each : to_server) server_.receive(each.from, each.to, each.mad, clock_.now());
      for (const Datagram& each : to_client) client_.receive(each.from, each.to, each.mad, clock_.now());
    }
  }

  // The one event that a manager has.
  static Event only(Manager& manager) {
    auto events = manager.take_events();
    EXPECT_EQ(events.size(), 1u);
    return events.empty() ? Event{} : std::move(events.front());
  }

  // Advances the time to the next deadline of the two managers, and runs their timers.
  void wait() {
    clock_.set(std::min(client_.deadline(), server_.deadline()));
    client_.run_timers(clock_.now());
    server_.run_timers(clock_.now());
  }

  struct Ends {
    Handle client = 0;
    Handle server = 0;
  };
  Ends establish(std::uint32_t client_qpn = 100, std::uint32_t server_qpn = 200) {
    Ends ends;
    ends.client = connect(client_qpn);
    carry();
    ends.server = only(server_).id;
    server_.note_delivered(ends.server);
    EXPECT_TRUE(server_.accept(ends.server, kOwn(server_qpn), {}, clock_.now()));
    carry();
    EXPECT_EQ(only(client_).type, EventType::kConnectResponse);
    EXPECT_TRUE(client_.confirm(ends.client));
    carry();
    EXPECT_EQ(only(server_).type, EventType::kEstablished);
    return ends;
  }

  pvrdma::test::ManualClock clock_;
  Manager client_;
  Manager server_;
};

}  // namespace pvrdma::cm::test
