// Three managers on a wire that loses, doubles and reorders, with programs that connect, accept, reject,
// disconnect and die at any moment. What happens follows from the seed.
//
// Checked at each step: the order of the events of an id, and that each comes at most once. When both ends of
// a connection are established: that they mean each other, and send from where the other receives. At the
// end, when the wire works again and the programs have gone: nothing is left, and no end has missed that its
// peer is gone.
#include <gtest/gtest.h>
#include <map>
#include <random>

#include "cm/manager.h"
#include "sim/random.h"
#include "support/manual_clock.h"

namespace pvrdma::cm {
namespace {

constexpr std::uint16_t kPort = 7000;
constexpr int kNodes = 3;
constexpr int kSteps = 400;

Gid address_of_node(int node) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, static_cast<std::uint8_t>(node + 1)};
}

// An id as its program sees it.
struct SeenId {
  bool is_active = false;
  bool is_answered = false;  // kConnectResponse
  bool is_established = false;
  bool is_over = false;  // kRejected, kUnreachable or kDisconnected
  bool has_left_timewait = false;
  std::uint32_t qpn = 0;
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    for (int node = 0; node < kNodes; ++node) {
      nodes_.push_back(
          {Manager({.addresses = {address_of_node(node)},
                    .ca_guid = static_cast<std::uint64_t>(node + 1),
                    .random = std::mt19937_64(seed * kNodes + static_cast<std::uint64_t>(node))}),
           {},
           0});
      listen(node);
    }
  }

  void run() {
    for (int step = 0; step < kSteps && !::testing::Test::HasFailure(); ++step) {
      const std::uint32_t what = random_.below(100);
      if (what < 45) {
        deliver();
      } else if (what < 60) {
        pass();
      } else {
        act(static_cast<int>(random_.below(kNodes)));
      }
    }
    quiet_down();
  }

  std::size_t established() const { return established_; }
  std::size_t lost() const { return lost_; }

 private:
  struct Node {
    Manager manager;
    std::map<Handle, SeenId> ids;
    Handle listener;
  };

  void listen(int node) {
    Node& at = nodes_[static_cast<std::size_t>(node)];
    at.listener = *at.manager.create(0);
    ASSERT_TRUE(at.manager.bind(at.listener, {{}, kPort}));
    ASSERT_TRUE(at.manager.listen(at.listener, 8));
  }

  // Takes what the managers have to say.
  void look() {
    for (Node& node : nodes_) {
      for (Datagram& each : node.manager.take_datagrams()) {
        if (is_lossy_ && random_.chance(150)) {
          ++lost_;
          continue;
        }
        if (is_lossy_ && random_.chance(100)) wire_.push_back(each);
        wire_.push_back(each);
      }
      for (const Event& event : node.manager.take_events()) see(node, event);
    }
    check_pairs();
  }

  void see(Node& node, const Event& event) {
    if (event.type == EventType::kConnectRequest) {
      EXPECT_EQ(event.listener, node.listener);
      EXPECT_TRUE(node.ids.try_emplace(event.id).second) << "one request makes one id";
      node.manager.note_delivered(event.id);
      return;
    }
    const auto found = node.ids.find(event.id);
    ASSERT_NE(found, node.ids.end()) << "an event of an id that the program has destroyed";
    SeenId& id = found->second;
    switch (event.type) {
      case EventType::kConnectResponse:
        EXPECT_TRUE(id.is_active && !id.is_answered && !id.is_over);
        id.is_answered = true;
        break;
      case EventType::kEstablished:
        EXPECT_TRUE(!id.is_active && !id.is_established && !id.is_over);
        id.is_established = true;
        ++established_;
        break;
      case EventType::kRejected:
      case EventType::kUnreachable:
        EXPECT_FALSE(id.is_over || id.is_established);
        id.is_over = true;
        break;
      case EventType::kDisconnected:
        EXPECT_FALSE(id.is_over);
        id.is_over = true;
        break;
      case EventType::kTimewaitExit:
        EXPECT_FALSE(id.has_left_timewait);
        EXPECT_TRUE(id.is_over);
        id.has_left_timewait = true;
        break;
      case EventType::kConnectRequest:
        break;
    }
  }

  // Both ends of a connection agree.
  void check_pairs() {
    std::map<std::pair<Gid, std::uint32_t>, const Connection*> by_id;
    for (const Node& node : nodes_) {
      for (const auto& [handle, id] : node.ids) {
        const Connection* const connection = node.manager.find(handle);
        ASSERT_NE(connection, nullptr);
        if (connection->state == State::kEstablished)
          by_id[{connection->local.ip, connection->local_id}] = connection;
      }
    }
    for (const auto& [key, connection] : by_id) {
      const auto other = by_id.find({connection->remote.ip, connection->remote_id});
      if (other == by_id.end()) continue;
      EXPECT_EQ(other->second->remote_id, connection->local_id);
      EXPECT_EQ(other->second->remote_psn, connection->local_psn);
      EXPECT_EQ(other->second->own.qpn, connection->peer.qpn);
    }
  }

  void deliver() {
    if (wire_.empty()) return;
    const std::size_t at = random_.below(static_cast<std::uint32_t>(wire_.size()));  // any order
    const Datagram datagram = wire_[at];
    wire_.erase(wire_.begin() + static_cast<std::ptrdiff_t>(at));
    for (int node = 0; node < kNodes; ++node) {
      if (address_of_node(node) == datagram.to)
        nodes_[static_cast<std::size_t>(node)].manager.receive(datagram.from, datagram.to, datagram.mad,
                                                               clock_.now());
    }
    look();
  }

  void pass() {
    clock_.advance(random_.up_to(std::chrono::seconds(3)));
    for (Node& node : nodes_) node.manager.run_timers(clock_.now());
    look();
  }

  void act(int number) {
    Node& node = nodes_[static_cast<std::size_t>(number)];
    if (node.ids.empty() || random_.chance(250)) return start(number);
    auto chosen = node.ids.begin();
    std::advance(chosen, random_.below(static_cast<std::uint32_t>(node.ids.size())));
    const Handle handle = chosen->first;
    SeenId& id = chosen->second;
    Manager& manager = node.manager;
    const State state = manager.find(handle)->state;
    if (random_.chance(100) || (id.is_over && random_.chance(500))) {
      node.ids.erase(chosen);
      EXPECT_TRUE(manager.destroy(handle, clock_.now()));
    } else if (state == State::kReqReceived) {
      if (random_.chance(200)) {
        EXPECT_TRUE(manager.reject(handle, 28, {}, clock_.now()));
        id.is_over = true;
      } else {
        id.qpn = next_qpn_++;
        EXPECT_TRUE(manager.accept(handle, {.qpn = id.qpn}, {}, clock_.now()));
      }
    } else if (state == State::kRepReceived) {
      EXPECT_TRUE(manager.confirm(handle));
      id.is_established = true;
    } else if (state == State::kEstablished && random_.chance(300)) {
      EXPECT_TRUE(manager.disconnect(handle, clock_.now()));
    }
    look();
  }

  void start(int number) {
    Node& node = nodes_[static_cast<std::size_t>(number)];
    const Handle handle = *node.manager.create(0);
    const int peer = static_cast<int>(random_.below(kNodes));  // itself, too
    const auto port = static_cast<std::uint16_t>(random_.chance(100) ? kPort + 1 : kPort);
    EXPECT_TRUE(node.manager.resolve(handle, {}, {address_of_node(peer), port}));
    node.ids[handle] = {.is_active = true, .qpn = next_qpn_};
    EXPECT_TRUE(node.manager.connect(handle, {.qpn = next_qpn_++}, {}, clock_.now()));
    look();
  }

  // The wire works again; the programs of node 0 die, and the others hear of it.
  void quiet_down() {
    is_lossy_ = false;
    for (const auto& [handle, id] : std::exchange(nodes_[0].ids, {}))
      EXPECT_TRUE(nodes_[0].manager.destroy(handle, clock_.now()));
    EXPECT_TRUE(nodes_[0].manager.destroy(nodes_[0].listener, clock_.now()));
    settle();
    for (std::size_t i = 1; i < kNodes; ++i) {
      for (const auto& [handle, id] : nodes_[i].ids) {
        const Connection* const connection = nodes_[i].manager.find(handle);
        EXPECT_FALSE(connection->state == State::kEstablished && connection->remote.ip == address_of_node(0))
            << "nobody has told it that its peer is gone";
      }
    }
    for (Node& node : nodes_) {
      for (const auto& [handle, id] : std::exchange(node.ids, {}))
        EXPECT_TRUE(node.manager.destroy(handle, clock_.now()));
      if (node.manager.find(node.listener) != nullptr) {
        EXPECT_TRUE(node.manager.destroy(node.listener, clock_.now()));
      }
    }
    settle();
    for (const Node& node : nodes_) EXPECT_EQ(node.manager.connection_count(), 0u);
  }

  void settle() {
    look();
    for (int turns = 0; turns < 5000; ++turns) {
      if (!wire_.empty()) {
        deliver();
        continue;
      }
      Instant next = Instant::never();
      for (const Node& node : nodes_) next = std::min(next, node.manager.deadline());
      if (next == Instant::never()) return;
      clock_.set(next);
      for (Node& node : nodes_) node.manager.run_timers(next);
      look();
    }
    FAIL() << "the managers do not come to rest";
  }

  sim::Random random_;
  pvrdma::test::ManualClock clock_;
  std::vector<Node> nodes_;
  std::vector<Datagram> wire_;
  bool is_lossy_ = true;
  std::uint32_t next_qpn_ = 16;
  std::size_t established_ = 0;
  std::size_t lost_ = 0;
};

TEST(CmSimulationTest, EveryConnectionIsAgreedOnAndEnds) {
  std::size_t established = 0;
  std::size_t lost = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.run();
    established += world.established();
    lost += world.lost();
  }
  EXPECT_GT(established, 200u) << "the simulation must reach what it checks";
  EXPECT_GT(lost, 1000u);
}

}  // namespace
}  // namespace pvrdma::cm
