#include <cerrno>
#include <functional>
#include <memory>

#include "transport/hca/hca_fixture.h"
#include "transport/hca/host_pipes.h"

namespace pvrdma::transport::hca {
namespace {

using std::chrono::seconds;

// Two hosts with two shards each.
class HcaShardsTest : public HcaFixture {
 protected:
  HcaShardsTest() { meet(); }

  [[nodiscard]] bool comes_up(const Host& from, const Host& to) {
    from.hca->prepare(to.id);
    return wait([&] { return from.hca->is_up(to.id); });
  }
  std::unique_ptr<verbs::PathSlot> open(const Host& from, const Host& to) {
    auto slot = std::make_unique<verbs::PathSlot>();
    from.hca->open({.host = to.id, .segment = kSegment}, {}, traffic_, *slot);
    return slot;
  }

  struct NoNews final : NicUser {
    void on_news(News) override {}
  } user_;
  Host& a0_ = add_host();
  Host& a1_ = add_shard(a0_, 1);
  Host& b0_ = add_host();
  Host& b1_ = add_shard(b0_, 1);
};

TEST_F(HcaShardsTest, EachShardReachesEachShardOfTheOtherHost) {
  std::uint32_t number = 0;
  for (Host* from : {&a0_, &a1_}) {
    for (Host* to : {&b0_, &b1_}) {
      ASSERT_TRUE(comes_up(*from, *to)) << from->device << " " << to->device;
      const auto way = open(*from, *to);
      ASSERT_EQ((*way)->room(1, clock_.now()), 1U);
      (*way)->send_request(request(++number), {}, clock_.now());
      from->hca->flush(clock_.now());
      ASSERT_TRUE(wait([&] { return !to->told.requests.empty(); }));
      EXPECT_EQ(to->told.requests.back().number, verbs::MessageNumber(number));
      EXPECT_EQ(to->told.hosts.back(), from->id);
      to->told.requests.clear();
    }
  }
}

TEST_F(HcaShardsTest, OnlyThePipeBetweenTheFirstShardsIsThereUnasked) {
  ASSERT_TRUE(wait([&] { return reach(a0_, b0_); }));
  pass(seconds(10));
  for (const auto& [from, to] : {std::pair(&a0_, &b1_), std::pair(&a1_, &b0_), std::pair(&a1_, &b1_)}) {
    EXPECT_FALSE(from->hca->is_up(to->id));
    EXPECT_EQ(from->hca->trouble(to->id), "") << "it rests";
  }
  a1_.hca->prepare(b1_.id);
  EXPECT_EQ(a1_.hca->trouble(b1_.id), "a pipe is being made");
  ASSERT_TRUE(wait([&] { return a1_.hca->is_up(b1_.id); }));
  EXPECT_EQ(a1_.told.changes, 1);
  EXPECT_FALSE(b1_.hca->is_up(a1_.id)) << "each side dials what it needs";
}

TEST_F(HcaShardsTest, APipeRestsWhenNothingHasUsedItForAMinute) {
  ASSERT_TRUE(comes_up(a1_, b1_));
  auto way = open(a1_, b1_);
  pass(2 * kRestAfter);
  EXPECT_TRUE(a1_.hca->is_up(b1_.id)) << "a path holds it";
  way.reset();
  pass(kRestAfter - seconds(2));
  EXPECT_TRUE(a1_.hca->is_up(b1_.id));
  const verbs::Datagram datagram{};
  EXPECT_TRUE(
      a1_.hca->send_datagram({.host = b1_.id, .segment = kSegment}, datagram, {}, traffic_, clock_.now()));
  pass(kRestAfter - seconds(2));
  EXPECT_TRUE(a1_.hca->is_up(b1_.id)) << "a datagram has used it";
  pass(seconds(5));
  EXPECT_FALSE(a1_.hca->is_up(b1_.id));
  EXPECT_EQ(a1_.hca->trouble(b1_.id), "");
  EXPECT_EQ(a1_.hca->errors().falls, 0U);
  EXPECT_EQ(b1_.hca->errors().falls, 0U);
  pass(seconds(100));
  EXPECT_FALSE(a1_.hca->is_up(b1_.id));
  EXPECT_TRUE(comes_up(a1_, b1_));
  ASSERT_TRUE(reach(a0_, b0_)) << "which never rests";
}

TEST_F(HcaShardsTest, APipeThatIsWantedIsMadeWhenThatBecomesPossible) {
  nics_.set_port(b1_.device, false);
  pass(seconds(1));
  a1_.hca->prepare(b1_.id);
  pass(3 * kRestAfter);
  EXPECT_FALSE(a1_.hca->is_up(b1_.id));
  EXPECT_NE(a1_.hca->trouble(b1_.id), "");
  nics_.set_port(b1_.device, true);
  EXPECT_TRUE(wait([&] { return a1_.hca->is_up(b1_.id); }, seconds(10)));
}

// As when a NIC comes back under connections that are idle: nothing needs the lanes meanwhile.
TEST_F(HcaShardsTest, APathInUseIsDialledAlsoIfLanesRest) {
  ASSERT_TRUE(comes_up(a1_, b1_));
  const auto way = open(a1_, b1_);
  a1_.lanes = LaneState::kRest;
  pass(2 * kRestAfter);
  nics_.set_port(a1_.device, false);
  ASSERT_TRUE(wait([&] { return !a1_.hca->is_up(b1_.id); }));
  nics_.set_port(a1_.device, true);
  EXPECT_TRUE(wait([&] { return a1_.hca->is_up(b1_.id); }, seconds(10)));
}

// As if the peer's HCA never answered. The lanes rest because no path needs them any more.
TEST_F(HcaShardsTest, APipeThatNothingWaitsForIsNotDialledForEver) {
  a1_.hca->prepare(b1_.id);
  leave(b1_);
  pass(2 * kRestAfter);
  EXPECT_NE(a1_.hca->trouble(b1_.id), "");
  a1_.lanes = LaneState::kRest;
  pass(2 * kRestAfter);
  const std::uint64_t failed = a1_.hca->errors().failed_setups;
  EXPECT_GT(failed, 100U) << "it was dialled while a path waited";
  EXPECT_EQ(a1_.hca->trouble(b1_.id), "") << "nobody misses it";
  EXPECT_EQ(a1_.hca->next_deadline(), Instant::never());
  pass(10 * kRestAfter);
  EXPECT_EQ(a1_.hca->errors().failed_setups, failed);
}

TEST_F(HcaShardsTest, AShardThatSleepsHoldsOneEndOfEachPeer) {
  ASSERT_TRUE(comes_up(a1_, b1_));
  const std::size_t before = nics_.objects();
  for (int i = 0; i < 50; ++i) {
    const auto made = PipeEnd::make(nics_.open(a0_.device, user_).value(), 4096);
    ASSERT_TRUE(b1_.hca->answer(a0_.name, {.end = (*made)->here(), .gids = {link_local(1)}}));
  }
  EXPECT_LE(nics_.objects(), before + 2) << "a QP and its region: the others were replaced";
  pass(seconds(1));
}

// The results of the worker's jobs, and ends that peers have dialled, do not go through it.
TEST_F(HcaShardsTest, AFullMailboxLosesNothing) {
  const std::function<void()> again = [&] { static_cast<void>(loop_->post(again)); };
  while (loop_->post(again)) {
  }
  const auto soon = [this](auto done) {
    for (int i = 0; i < 2000 && !done(); ++i) {
      turn();
      clock_.advance(std::chrono::milliseconds(5));
    }
    return done();
  };
  ASSERT_TRUE(soon([&] { return reach(a0_, b0_); }));
  nics_.set_port(a0_.device, false);
  ASSERT_TRUE(soon([&] { return !a0_.hca->is_up(b0_.id); }));
  nics_.set_port(a0_.device, true);
  EXPECT_TRUE(soon([&] { return reach(a0_, b0_); }));
}

TEST_F(HcaShardsTest, AHostThatIsNotAskedYetHasNotFailed) {
  a1_.introducer.is_too_early = true;
  a1_.hca->prepare(b1_.id);
  pass(seconds(10));
  EXPECT_EQ(a1_.hca->trouble(b1_.id), "it is asked again soon");
  EXPECT_EQ(a1_.hca->errors().failed_setups, 0U);
  a1_.introducer.is_too_early = false;
  EXPECT_TRUE(wait([&] { return a1_.hca->is_up(b1_.id); }, seconds(10)));
}

TEST_F(HcaShardsTest, APathInUseIsDialledAgainAfterAFailure) {
  ASSERT_TRUE(comes_up(a1_, b1_));
  const auto way = open(a1_, b1_);
  ASSERT_GT(nics_.break_qps(a1_.device), 0);
  ASSERT_TRUE(wait([&] { return !a1_.hca->is_up(b1_.id); }));
  EXPECT_TRUE(wait([&] { return a1_.hca->is_up(b1_.id); }, seconds(10)));
  EXPECT_EQ(a1_.hca->errors().falls, 1U);
}

TEST_F(HcaShardsTest, AnOfferOfAnUnknownShardIsRefused) {
  ASSERT_TRUE(wait([&] { return reach(a0_, b0_); }));
  const PipeOffer offer{
      .end = {.qpn = 17, .mtu = 4096, .slots = 256}, .gids = {link_local(1)}, .from_shard = ShardNumber(2)};
  const auto refused = b0_.hca->answer(a0_.name, offer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EACCES);
  EXPECT_EQ(refused.error().message, "shard 2 of host " + a0_.name + " is not one of its HCA peers");
}

}  // namespace
}  // namespace pvrdma::transport::hca
