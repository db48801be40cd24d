#include "fabric/host_gids.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/fabric_fixture.h"
#include "fabric/port.h"
#include "support/manual_clock.h"

namespace pvrdma::fabric {
namespace {

using transport::ShardNumber;
using Reach = HostGids::Reach;
using Reason = HostGids::Refusal::Reason;

constexpr transport::SegmentId kHere{.dvs = 7, .vlan = 11};
constexpr transport::SegmentId kElsewhere{.dvs = 7, .vlan = 12};
constexpr ShardNumber kFirst{0};
constexpr ShardNumber kSecond{1};

verbs::Gid gid_number(std::uint32_t number) {
  verbs::Gid made = gid(1);
  made.bytes[8] = static_cast<std::uint8_t>(number >> 16);
  made.bytes[9] = static_cast<std::uint8_t>(number >> 8);
  made.bytes[10] = static_cast<std::uint8_t>(number);
  return made;
}

class HostGidsTest : public testing::Test {
 protected:
  HostGids::Holder on(ShardNumber shard, HostGids::PortNumber port, Reach reach = Reach::kWorks) {
    return {.shard = shard, .port = port, .reach = reach};
  }

  HostGids host_{2};
  const HostGids::PortNumber a_ = host_.add_port(kHere, "VM-A", {});
  const HostGids::PortNumber b_ = host_.add_port(kHere, "VM-B", {});
};

TEST_F(HostGidsTest, FindsWhatIsBoundUntilItIsUnbound) {
  EXPECT_EQ(host_.find(kHere, gid(1)), std::nullopt);
  ASSERT_FALSE(host_.bind(kHere, gid(1), on(kSecond, a_), HostGids::Claim::kFree));
  EXPECT_EQ(host_.find(kHere, gid(1)), on(kSecond, a_));
  EXPECT_EQ(host_.find(kElsewhere, gid(1)), std::nullopt) << "a GID means something within its segment only";
  host_.unbind(kHere, gid(1), b_);
  EXPECT_NE(host_.find(kHere, gid(1)), std::nullopt) << "no port unbinds another one's GID";
  host_.unbind(kHere, gid(1), a_);
  EXPECT_EQ(host_.find(kHere, gid(1)), std::nullopt);
}

// An adapter has a port on each of two shards while it moves from one to the other.
TEST_F(HostGidsTest, APortHandsItsGidsAndAddressesOverToItsFollower) {
  const auto listed = host_.add_port(kHere, "VM-C", {gid(7)});
  const auto follower = host_.add_port(kHere, "VM-C", {gid(7)});
  ASSERT_FALSE(host_.bind(kHere, gid(1), on(kFirst, a_), HostGids::Claim::kFree));
  ASSERT_FALSE(host_.bind(kHere, gid(7), on(kFirst, listed, Reach::kStopped), HostGids::Claim::kOwn));
  host_.hand_over(kHere, gid(7), listed, on(kSecond, follower, Reach::kStopped));
  host_.hand_over_addresses(kHere, listed, follower, {gid(7)});
  EXPECT_EQ(host_.find(kHere, gid(7)), on(kSecond, follower, Reach::kStopped));
  host_.unbind(kHere, gid(7), listed);
  host_.remove_port(kHere, listed, {gid(7)});
  EXPECT_EQ(host_.find(kHere, gid(7)), on(kSecond, follower, Reach::kStopped)) << "it is the follower's";
  host_.unbind(kHere, gid(7), follower);
  EXPECT_EQ(host_.bind(kHere, gid(7), on(kFirst, a_), HostGids::Claim::kFree)->reason,
            Reason::kAddressOfAnother)
      << "the address is still listed";
  host_.hand_over(kHere, gid(1), b_, on(kSecond, follower));
  EXPECT_EQ(host_.find(kHere, gid(1)), on(kFirst, a_)) << "no port hands over another one's GID";
}

TEST_F(HostGidsTest, RefusesAGidThatAPortOfAnotherShardHolds) {
  ASSERT_FALSE(host_.bind(kHere, gid(1), on(kFirst, a_), HostGids::Claim::kFree));
  const auto refusal = host_.bind(kHere, gid(1), on(kSecond, b_), HostGids::Claim::kOwn);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, Reason::kHeld);
  EXPECT_EQ(refusal->port, "VM-A");
  EXPECT_FALSE(host_.bind(kElsewhere, gid(1), on(kSecond, b_), HostGids::Claim::kFree));
  host_.unbind(kHere, gid(1), a_);
  EXPECT_FALSE(host_.bind(kHere, gid(1), on(kSecond, b_), HostGids::Claim::kOwn)) << "free again";
  EXPECT_EQ(host_.find(kHere, gid(1)), on(kSecond, b_));
}

TEST_F(HostGidsTest, ReservesThePortsAddresses) {
  const std::vector<verbs::Gid> addresses{gid(1), gid(2)};
  const auto listed = host_.add_port(kHere, "VM-C", addresses);
  const auto refusal = host_.bind(kHere, gid(2), on(kFirst, a_), HostGids::Claim::kFree);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, Reason::kAddressOfAnother);
  EXPECT_EQ(refusal->port, "VM-C");
  EXPECT_FALSE(host_.bind(kElsewhere, gid(2), on(kFirst, a_), HostGids::Claim::kFree));
  EXPECT_FALSE(host_.bind(kHere, gid(1), on(kSecond, listed), HostGids::Claim::kOwn));
  host_.remove_port(kHere, listed, addresses);
  EXPECT_FALSE(host_.bind(kHere, gid(2), on(kFirst, a_), HostGids::Claim::kFree));
}

TEST_F(HostGidsTest, TellsWhetherMessagesReachTheGid) {
  ASSERT_FALSE(host_.bind(kHere, gid(1), on(kFirst, a_, Reach::kDetached), HostGids::Claim::kFree));
  host_.set_reach(kHere, gid(1), a_, Reach::kStopped);
  EXPECT_EQ(host_.find(kHere, gid(1)), on(kFirst, a_, Reach::kStopped));
  host_.set_reach(kHere, gid(1), b_, Reach::kWorks);
  EXPECT_EQ(host_.find(kHere, gid(1)), on(kFirst, a_, Reach::kStopped)) << "it is not that port's";
}

TEST_F(HostGidsTest, RefusesAGidWhoseSetIsFull) {
  constexpr std::uint32_t kFiftyAdapters = 50 * 64;  // each with its table of GIDs full
  for (std::uint32_t i = 0; i < HostGids::kSets * HostGids::kWays + 1; ++i) {
    const auto refusal = host_.bind(kHere, gid_number(i), on(kFirst, a_), HostGids::Claim::kFree);
    if (!refusal) continue;
    ASSERT_GT(i, kFiftyAdapters);
    ASSERT_EQ(refusal->reason, Reason::kFull);
    EXPECT_EQ(refusal->port, "");
    EXPECT_EQ(host_.find(kHere, gid_number(i)), std::nullopt);
  }
  for (std::uint32_t i = 0; i < HostGids::kSets * HostGids::kWays + 1; ++i)
    host_.unbind(kHere, gid_number(i), a_);
  EXPECT_FALSE(host_.bind(kHere, gid(1), on(kFirst, a_), HostGids::Claim::kFree));
}

// Writes down what a shard tells of its GIDs.
class ToldGids final : public FabricObserver {
 public:
  void on_gid_bound(transport::SegmentId /*segment*/, const verbs::Gid& gid,
                    const std::string& port) override {
    told.push_back(fmt::format("{} bound to {}", gid.bytes.back(), port));
  }
  void on_gid_unbound(transport::SegmentId /*segment*/, const verbs::Gid& gid) override {
    told.push_back(fmt::format("{} unbound", gid.bytes.back()));
  }
  void on_gid_moved(transport::SegmentId /*segment*/, const verbs::Gid& gid) noexcept override {
    told.push_back(fmt::format("{} moved", gid.bytes.back()));
  }
  void on_host_up(transport::HostId /*host*/, bool /*up*/) override {}
  std::vector<std::string> told;
};

// Two shards of one host, each with a fabric and one adapter.
class TwoFabrics : public testing::Test {
 protected:
  struct Shard {
    Shard(const Clock& clock, HostGids& host, ShardNumber number) : fabric(clock, host, number, &observer) {
      fabric.use(local);
    }
    Switch& here() { return fabric.segment(kHere); }

    ToldGids observer;
    RecordingTransport local{PathKind::kLocal};
    Fabric fabric;
  };

  // Where a message from `a_` to the GID goes now.
  DropReason dropped_to(const verbs::Gid& to) {
    const auto before = a_.port.counters().dropped;
    path_from_a_.send_request(a_.port, gid(1), to);
    for (std::size_t i = 0; i < kDropReasons; ++i) {
      if (a_.port.counters().dropped[i] != before[i]) return static_cast<DropReason>(i);
    }
    ADD_FAILURE() << "it was not dropped";
    return {};
  }

  test::ManualClock clock_;
  Blame blame_{clock_};
  std::vector<std::string> blamed_;
  HostGids host_{2};
  Shard first_{clock_, host_, kFirst};
  Shard second_{clock_, host_, kSecond};
  Node a_{"VM-A", first_.here()};
  Node b_{"VM-B", second_.here()};
  End path_from_a_;
};

TEST_F(TwoFabrics, SendToThePortOfTheOtherShardFromTheBindUntilTheUnbind) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  EXPECT_EQ(dropped_to(gid(2)), DropReason::kUnknownGid);
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  ASSERT_TRUE(path_from_a_.send_request(a_.port, gid(1), gid(2)));
  EXPECT_EQ(first_.local.deliveries,
            (std::vector<Delivery>{{.to = nullptr, .kind = 'q', .segment = kHere, .shard = kSecond}}));
  EXPECT_EQ(first_.here().path_to(gid(2)).kind, PathKind::kLocal);
  EXPECT_EQ(first_.here().path_to(gid(2)).reason, "both ports are on this host, on shards 0 and 1");
  EXPECT_EQ(first_.here().shard_of(gid(1)), kFirst);
  EXPECT_EQ(first_.here().shard_of(gid(2)), kSecond);
  b_.port.unbind_gid(gid(2));
  EXPECT_EQ(first_.here().shard_of(gid(2)), std::nullopt);
  EXPECT_EQ(dropped_to(gid(2)), DropReason::kUnknownGid);
}

TEST_F(TwoFabrics, FollowAGidThatIsUnboundAndBoundOnAnotherShard) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  ASSERT_TRUE(path_from_a_.send_request(a_.port, gid(1), gid(2)));
  Node c("VM-C", first_.here());
  EXPECT_FALSE(c.port.bind_gid(gid(2)));
  EXPECT_EQ(first_.here().duplicates_refused(), 1U);
  b_.port.unbind_gid(gid(2));
  ASSERT_TRUE(c.port.bind_gid(gid(2)));
  ASSERT_TRUE(path_from_a_.send_request(a_.port, gid(1), gid(2)));
  ASSERT_EQ(first_.local.deliveries.size(), 2U);
  EXPECT_EQ(first_.local.deliveries.back().to, &c.engine);
}

// While an adapter moves to another shard, its peers find it stopped, on one shard or on the other, and spend
// no retry.
TEST_F(TwoFabrics, FindAnAdapterThatMovesStoppedAndThenOnItsNewShard) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  Node local("VM-C", second_.here());
  const auto is_stopped = [&] {
    return dropped_to(gid(2)) == DropReason::kPortDetached && a_.port.spares_retries(gid(2), clock_.now()) &&
           local.port.spares_retries(gid(2), clock_.now());
  };
  b_.port.set_stopped(true);
  Port follower("VM-B", {}, first_.here());
  follower.follow(b_.port.as_predecessor());
  Node c("VM-D", second_.here());
  c.port.detach();
  follower.attach(c.engine);
  EXPECT_FALSE(follower.bind_gid(gid(3))) << "its predecessor does not hold it";
  ASSERT_TRUE(follower.bind_gid(gid(2)));
  follower.set_stopped(true);
  EXPECT_TRUE(is_stopped());
  b_.port.hand_over(follower.as_holder());
  EXPECT_TRUE(is_stopped());
  b_.port.unbind_gid(gid(2));
  EXPECT_TRUE(is_stopped()) << "it is the follower's";
  follower.end_following();
  follower.set_stopped(false);
  ASSERT_TRUE(path_from_a_.send_request(a_.port, gid(1), gid(2)));
  EXPECT_EQ(first_.local.deliveries.back().to, &c.engine);
  follower.unbind_gid(gid(2));
  EXPECT_EQ(dropped_to(gid(2)), DropReason::kUnknownGid);
  follower.detach();
}

// The observer hears of it once, from the new shard, as soon as that has the adapter.
TEST_F(TwoFabrics, TellThatTheGidsOfAnAdapterHaveMoved) {
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  b_.port.set_stopped(true);
  Port follower("VM-B", {}, first_.here());
  follower.follow(b_.port.as_predecessor());
  ASSERT_TRUE(follower.bind_gid(gid(2)));
  b_.port.hand_over(follower.as_holder());
  EXPECT_THAT(first_.observer.told, testing::IsEmpty());
  follower.end_following();
  follower.end_following();
  EXPECT_THAT(first_.observer.told, testing::ElementsAre("2 moved"));
  EXPECT_THAT(second_.observer.told, testing::ElementsAre("2 bound to VM-B"));
  follower.unbind_gid(gid(2));
  EXPECT_THAT(first_.observer.told, testing::ElementsAre("2 moved", "2 unbound"));
}

// The other host had bound it at the same time, and its record came first.
TEST_F(TwoFabrics, AnAdapterGetsNoGidBackByMovingThatItHasLost) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  const View stores{.hosts = {{transport::HostId(5), "esx-02", PathKind::kTcp, "both are tagged"}},
                    .gids = {{kHere, gid(2), transport::HostId(5)}}};
  for (Shard* shard : {&first_, &second_}) shard->fabric.set_view(stores);
  ASSERT_NE(second_.here().lost_to(b_.port, gid(2)), nullptr);
  b_.port.set_stopped(true);
  Port follower("VM-B", {}, first_.here());
  follower.follow(b_.port.as_predecessor());
  ASSERT_TRUE(follower.bind_gid(gid(2)));
  b_.port.hand_over(follower.as_holder());
  follower.end_following();
  EXPECT_NE(first_.here().lost_to(follower, gid(2)), nullptr);
  EXPECT_EQ(host_.find(kHere, gid(2))->reach, Reach::kLost);
  for (Shard* shard : {&first_, &second_}) shard->fabric.set_view({.hosts = stores.hosts});
  EXPECT_EQ(first_.here().lost_to(follower, gid(2)), nullptr) << "the other host has let go of it";
}

// A follower that is destroyed before the hand-over leaves the GIDs where they are.
TEST_F(TwoFabrics, FindAnAdapterThatDidNotMoveWhereItWas) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  b_.port.set_stopped(true);
  {
    Port follower("VM-B", {}, first_.here());
    follower.follow(b_.port.as_predecessor());
    ASSERT_TRUE(follower.bind_gid(gid(2)));
  }
  b_.port.set_stopped(false);
  ASSERT_TRUE(path_from_a_.send_request(a_.port, gid(1), gid(2)));
  EXPECT_EQ(first_.local.deliveries.back().shard, kSecond);
}

TEST_F(TwoFabrics, SendNothingToAPortThatIsStoppedDownOrGone) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  b_.port.set_link(false);
  EXPECT_EQ(dropped_to(gid(2)), DropReason::kLinkDown);
  EXPECT_EQ(first_.here().path_to(gid(2)).reason, "the link of the port that holds the GID is down");
  b_.port.set_link(true);
  b_.port.set_stopped(true);
  EXPECT_EQ(dropped_to(gid(2)), DropReason::kPortDetached);
  EXPECT_TRUE(a_.port.spares_retries(gid(2), clock_.now()));
  b_.port.set_stopped(false);
  EXPECT_TRUE(path_from_a_.send_request(a_.port, gid(1), gid(2)));
  EXPECT_FALSE(a_.port.spares_retries(gid(2), clock_.now()));
  b_.port.detach();
  EXPECT_EQ(dropped_to(gid(2)), DropReason::kPortDetached);
}

TEST_F(TwoFabrics, TellTheOthersThatAPortWorksAgain) {
  struct News {
    ShardNumber from;
    transport::SegmentId segment;
    HostGids::PortNumber port;
  };
  std::vector<News> told;
  host_.set_tell([&](ShardNumber from, transport::SegmentId segment, HostGids::PortNumber port) {
    told.push_back({from, segment, port});
  });
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  b_.port.set_stopped(true);
  EXPECT_TRUE(told.empty());
  b_.port.set_stopped(false);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].from, kSecond);
  EXPECT_EQ(told[0].segment, kHere);
  EXPECT_EQ(host_.find(kHere, gid(2))->port, told[0].port);
}

TEST_F(TwoFabrics, BlameTheSenderOfAnotherShardForItsMemory) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  const auto admit = [&] { return first_.fabric.admit(kSecond, kHere, gid(2), gid(1)); };
  EXPECT_EQ(admit().lender, nullptr) << "nobody is to be told";
  first_.fabric.watch_lenders(blame_, [&](const std::string& adapter, Duration took) {
    blamed_.push_back(fmt::format("{} {}", adapter, microseconds_of(took)));
  });
  EXPECT_EQ(admit().lender, nullptr) << "no turn was long";
  blame_.end_long_turn(clock_.now(), {});
  blame_.begin_turn(clock_.now());
  Blame::Party* const lender = admit().lender;
  ASSERT_NE(lender, nullptr);
  EXPECT_EQ(admit().lender, lender);
  EXPECT_EQ(lender->what(), "adapter VM-B");
  {
    const Blame::Piece piece(blame_, lender);
    clock_.advance(std::chrono::milliseconds(25));
  }
  EXPECT_EQ(blame_.end_long_turn(clock_.now(), {}).party, lender);
  EXPECT_THAT(blamed_, testing::ElementsAre("VM-B 25000"));
}

TEST_F(TwoFabrics, AdmitFromAShardWhatItsPortsHold) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  EXPECT_EQ(second_.here().admit(kFirst, gid(1), gid(2)), &b_.port);
  EXPECT_EQ(second_.here().admit(kSecond, gid(1), gid(2)), nullptr) << "another shard holds it";
  EXPECT_EQ(second_.here().admit(kFirst, gid(3), gid(2)), nullptr);
  EXPECT_EQ(second_.here().admit(kFirst, gid(1), gid(3)), nullptr);
}

TEST_F(TwoFabrics, LetNoPortTakeTheAddressOfOneOnAnotherShard) {
  Port listed("VM-C", {.mac = {}, .addresses = {gid(5)}}, second_.here());
  EXPECT_FALSE(a_.port.bind_gid(gid(5)));
  EXPECT_EQ(first_.here().foreign_refused(), 1U);
  EXPECT_TRUE(listed.bind_gid(gid(5)));
}

TEST_F(TwoFabrics, FreeTheGidsOfAPortThatGoes) {
  {
    Port passing("VM-C", {}, second_.here());
    ASSERT_TRUE(passing.bind_gid(gid(3)));
    EXPECT_FALSE(a_.port.bind_gid(gid(3)));
  }
  EXPECT_TRUE(a_.port.bind_gid(gid(3)));
}

// Another host has bound it at the same time: the table's other readers must not send to this one.
TEST_F(TwoFabrics, SendNothingToAPortThatHasLostTheGid) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  const transport::HostId other{5};
  const View stores{.hosts = {{other, "esx-02", PathKind::kTcp, "both are tagged", {}}},
                    .gids = {{kHere, gid(2), other}}};
  second_.fabric.set_view(stores);
  EXPECT_EQ(dropped_to(gid(2)), DropReason::kUnknownGid);
  first_.here().set_native(NativeRule{kHere, {}});
  EXPECT_EQ(dropped_to(gid(2)), DropReason::kUnknownGid) << "nor to a native endpoint";
  second_.fabric.set_view({.hosts = stores.hosts});
  EXPECT_TRUE(path_from_a_.send_request(a_.port, gid(1), gid(2)));
}

// The kernel may let a thread sleep that touches the memory of an adapter in the ward.
TEST(AHostWithAWard, LendsNoMemoryBetweenTheWardAndOtherShards) {
  constexpr ShardNumber kWard{2};
  EXPECT_FALSE(HostGids(2).only_copy(kFirst, kSecond));
  test::ManualClock clock;
  HostGids host(3, kWard);
  const auto sent = [&](ShardNumber from, ShardNumber to) {
    RecordingTransport local{PathKind::kLocal};
    Fabric sender(clock, host, from);
    Fabric receiver(clock, host, to);
    sender.use(local);
    Node a("VM-A", sender.segment(kHere));
    Node b("VM-B", receiver.segment(kHere));
    End path;
    EXPECT_TRUE(a.port.bind_gid(gid(1)) && b.port.bind_gid(gid(2)));
    EXPECT_TRUE(path.send_request(a.port, gid(1), gid(2)));
    return local.deliveries.at(0);
  };
  EXPECT_TRUE(sent(kFirst, kWard).copies);
  EXPECT_TRUE(sent(kWard, kFirst).copies);
  EXPECT_FALSE(sent(kFirst, kSecond).copies);
  EXPECT_FALSE(host.only_copy(kWard, kWard)) << "within the ward the thread is the same";
}

}  // namespace
}  // namespace pvrdma::fabric
