// Adapters that come into the ward, and leave it. device/shards_test.cc has the traffic beside the ward.
#include "adapters/ward.h"

#include <atomic>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>

#include "adapters/shard_balancer.h"
#include "adapters/two_shards_fixture.h"
#include "support/log_of.h"
#include "vfio_user/client.h"

namespace pvrdma::adapters {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kConfig = 7;
constexpr std::uint64_t kBar = 0x10;
constexpr Duration kLong = milliseconds(170);
constexpr Duration kGuard = std::chrono::seconds(20);

// Shard 1 is the ward.
class WardTest : public testing::Test {
 protected:
  void SetUp() override { ward_.start(placement_); }

  std::size_t shard_of(const std::string& adapter) {
    const auto thread = two_.shards().on(
        adapter, [](ServedAdapter&) -> Result<std::thread::id> { return std::this_thread::get_id(); },
        "a test's");
    return thread.value() == two_.thread_of(0) ? 0 : 1;
  }
  bool comes_to(std::size_t shard, const std::string& adapter) {
    const Instant until = Instant::now() + kGuard;
    while (shard_of(adapter) != shard) {
      if (Instant::now() > until) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  void offend_twice(const std::string& adapter) {
    ward_.on_offence(adapter, kLong);
    ward_.on_offence(adapter, kLong);
  }

  Keeping keeping_{[] {}};
  test::TwoShards two_{&keeping_, nullptr, nullptr, test::Second::kWard};
  std::atomic<int> refusals_ = 0;  // how many moves are refused from now on
  ShardPlacement placement_{two_.shards(), [this](const std::string&) {
                              return refusals_ > 0 && refusals_-- > 0
                                         ? fail(ErrorKind::kConflict, "a checkpoint is under way")
                                         : Result<void>();
                            }};
  SteadyClock clock_;
  Ward ward_{clock_, milliseconds(1)};
};

TEST_F(WardTest, AnAdapterThatOffendsTwiceComesIntoTheWardWithItsClient) {
  auto client = vfio_user::Client::connect(two_.socket(0)).value();
  const std::uint32_t written = 0xfe00'0000;
  ASSERT_TRUE(client->region_write(kConfig, kBar, std::as_bytes(std::span(&written, 1))));
  const std::string log = pvrdma::test::log_of([this] {
    ward_.on_offence("VM-1", milliseconds(20));
    ward_.on_offence("VM-1", kLong);
    EXPECT_TRUE(comes_to(1, "VM-1"));
    ward_.stop();
  });
  EXPECT_NE(log.find("adapter VM-1: moved from shard 0 to shard 1, in "), std::string::npos) << log;
  EXPECT_NE(
      log.find(": that is the ward: twice within a minute it kept the other adapters waiting, for 170 ms"),
      std::string::npos)
      << log;
  std::uint32_t read = 0;
  EXPECT_TRUE(client->region_read(kConfig, kBar, std::as_writable_bytes(std::span(&read, 1))));
  EXPECT_EQ(read, written);
  EXPECT_EQ(placement_.counts().moves, 1U);
  EXPECT_EQ(placement_.counts().own_moves, 0U);
  EXPECT_EQ(placement_.counts().ward_moves, 1U);
}

TEST_F(WardTest, OneOffenceAndShortOnesMoveNothing) {
  ward_.on_offence("VM-1", kLong);
  for (int i = 0; i < 10; ++i) ward_.on_offence("VM-1", milliseconds(19));
  placement_.place("VM-2", 0).value();
  offend_twice("VM-2");  // noted after those of VM-1
  ASSERT_TRUE(comes_to(1, "VM-2"));
  EXPECT_EQ(shard_of("VM-1"), 0U);
}

TEST_F(WardTest, AMoveThatIsRefusedIsTriedAgain) {
  refusals_ = 7;
  const std::string log = pvrdma::test::log_of([this] {
    offend_twice("VM-1");
    EXPECT_TRUE(comes_to(1, "VM-1"));
  });
  EXPECT_EQ(refusals_, 0);
  const std::string line =
      "adapter VM-1: keeps other adapters waiting and does not move to the ward: a checkpoint is under way";
  std::size_t lines = 0;
  for (std::size_t at = log.find(line); at != std::string::npos; at = log.find(line, at + 1)) ++lines;
  EXPECT_EQ(lines, 4U) << log;
}

TEST_F(WardTest, AnOperatorTakesAnAdapterOutAndItComesBackIfItOffendsAgain) {
  offend_twice("VM-1");
  ASSERT_TRUE(comes_to(1, "VM-1"));
  const auto placed = placement_.place("VM-1", 0);
  ASSERT_TRUE(placed) << placed.error().message;
  ward_.on_offence("VM-1", kLong);
  offend_twice("VM-2");  // it is there, and stays
  EXPECT_EQ(shard_of("VM-1"), 0U) << "the operator has chosen, and one offence is not enough";
  ward_.on_offence("VM-1", kLong);
  EXPECT_TRUE(comes_to(1, "VM-1"));
  EXPECT_EQ(placement_.counts().ward_moves, 2U);
}

TEST_F(WardTest, BalancingLeavesTheWardAlone) {
  ShardBalancer balancer(two_.shards(), placement_, clock_, std::chrono::hours(1));
  balancer.measure();
  EXPECT_EQ(balancer.measure().size(), 1U) << "the ward is neither too busy nor idle";
  const auto moved = placement_.relieve({.adapter = "VM-2", .from = 1, .to = 0});
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(moved.error().message, "adapter VM-2 stays in the ward");
  EXPECT_EQ(shard_of("VM-2"), 1U);
}

TEST_F(WardTest, ManyOffencesOfAnAdapterThatDoesNotExistAreForgotten) {
  for (std::size_t i = 0; i < 4 * Ward::kNewsMax; ++i) ward_.on_offence("nobody", kLong);
  while (placement_.counts().ward_moves == 0) offend_twice("VM-1");  // some are dropped
  EXPECT_EQ(shard_of("VM-1"), 1U);
}

TEST_F(WardTest, ALookForAnAdapterOfAnotherShardDoesNotWaitForTheWard) {
  std::promise<void> asleep;
  std::promise<void> wakes;
  ASSERT_TRUE(two_.loop(1).post(shard::Task([&] {
    asleep.set_value();
    wakes.get_future().wait();
  })));
  asleep.get_future().wait();
  EXPECT_EQ(shard_of("VM-1"), 0U) << "which the ward could not say";
  EXPECT_TRUE(two_.shards().ask_all_but_ward([](std::size_t) { return true; }, "a test's").at(0));
  const auto nobody = two_.shards().of("VM-3");
  wakes.set_value();
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind, ErrorKind::kUnavailable) << "it may be there";
  EXPECT_EQ(nobody.error().message,
            "shard 1, the ward: the shard did not answer in time: it is overloaded or stuck");
}

TEST_F(WardTest, EndsWhileItTriesAgain) {
  refusals_ = 1000;
  offend_twice("VM-1");
  while (refusals_ == 1000) std::this_thread::yield();
  ward_.stop();
  EXPECT_EQ(shard_of("VM-1"), 0U);
}

}  // namespace
}  // namespace pvrdma::adapters
