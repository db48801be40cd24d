#include "snapshots/shard_snapshots.h"

#include <algorithm>
#include <future>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "adapters/keeping.h"
#include "adapters/shard_links.h"
#include "adapters/shard_placement.h"
#include "adapters/two_shards_fixture.h"
#include "transport/local/local.h"
#include "vfio_user/client.h"

namespace pvrdma::snapshots {
namespace {

class ShardSnapshotsTest : public testing::Test {
 protected:
  void SetUp() override {
    fabric_.use(local_);
    ASSERT_TRUE(adapters_->add_static(
        {"VM-01", socket_, {0x52, 0x54, 0, 0x12, 0x34, 0x51}, HardwareVersion::k14, RoceVersion::kV2}));
    ASSERT_TRUE(adapters_->start());
    shard_ = std::thread([this] { loop_->run(); });
  }
  void TearDown() override {
    stop();
    adapters_.reset();
  }
  void stop() {
    loop_->stop();
    if (shard_.joinable()) shard_.join();
  }
  Snapshot take(SnapshotDetail detail) { return snapshots_.take_snapshot(detail).value(); }
  std::string_view state() { return take(SnapshotDetail::kAdapters).adapters[0].state; }

  const std::string socket_ =
      testing::TempDir() + "shard_snapshots_test_" + std::to_string(::getpid()) + ".sock";
  SteadyClock clock_;
  transport::Local local_;
  verbs::HostAccount account_{TotalBudgets{}};
  std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
  fabric::Fabric fabric_{clock_};
  adapters::NativeLinks natives_{{{.link = {LinkKind::kXdp, "lo"}}}};
  std::unique_ptr<adapters::AdapterSet> adapters_ = std::make_unique<adapters::AdapterSet>(
      fabric_, *loop_, clock_, nullptr, Budgets{}, &account_, nullptr, &natives_);
  const adapters::Shards shards_{{{*loop_, *adapters_, fabric_}}};
  ShardSnapshots snapshots_{shards_, account_};
  std::thread shard_;
};

TEST_F(ShardSnapshotsTest, TellsWhatAnAdapterIs) {
  const Snapshot snapshot = take(SnapshotDetail::kAdaptersAndQps);
  ASSERT_EQ(snapshot.adapters.size(), 1U);
  const AdapterSnapshot& adapter = snapshot.adapters[0];
  EXPECT_EQ(adapter.name, "VM-01");
  EXPECT_EQ(adapter.mac, "52:54:00:12:34:51");
  EXPECT_EQ(adapter.socket, socket_);
  EXPECT_EQ(adapter.hardware_version, 14U);
  EXPECT_EQ(adapter.device_version, 18U);
  EXPECT_EQ(adapter.roce, "v2");
  EXPECT_EQ(adapter.doorbells, to_text(kDoorbellModeDefault));
  EXPECT_EQ(adapter.native_endpoints, "on") << "lo is up and has an MTU that does";
  EXPECT_EQ(adapter.state, "off");
  EXPECT_TRUE(snapshot.qps.empty());
}

TEST_F(ShardSnapshotsTest, HasEveryGroupOfCounters) {
  const Snapshot snapshot = take(SnapshotDetail::kAdapters);
  std::vector<std::string_view> names;
  for (const auto& group : snapshot.adapters[0].groups) names.push_back(group.name);
  EXPECT_EQ(names,
            (std::vector<std::string_view>{"verbs", "device", "command_errors", "budget_refusals", "port"}));
  names.clear();
  for (const auto& group : snapshot.host) names.push_back(group.name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"switch", "local", "shard", "total_budget_refusals"}));
}

TEST_F(ShardSnapshotsTest, TellsUseAndLimitOfEveryBudget) {
  const Snapshot snapshot = take(SnapshotDetail::kAdapters);
  constexpr auto kNames = texts_of<Budget>();
  std::vector<std::string_view> names;
  for (const BudgetUse& each : snapshot.adapters[0].budgets) names.push_back(to_text(each.budget));
  EXPECT_EQ(names, std::vector<std::string_view>(kNames.begin(), kNames.end()));
  EXPECT_EQ(snapshot.adapters[0].budgets[0].limit, Budgets{}.qps);
  ASSERT_EQ(snapshot.totals.size(), 7U);
  EXPECT_EQ(snapshot.totals[0].limit, TotalBudgets{}.qps);
}

TEST_F(ShardSnapshotsTest, TellsThePathsAndWhatIsNotServed) {
  const auto posted = loop_->post([this] {
    adapters::WantedAdapter wanted;
    wanted.config = {"VM-02",
                     "/no/such/folder/VM-02.sock",
                     {0x52, 0x54, 0, 0, 0, 2},
                     HardwareVersion::k14,
                     RoceVersion::kV2};
    adapters_->set_wanted({wanted}, {wanted.config.name});
  });
  ASSERT_TRUE(posted);
  const Snapshot snapshot = take(SnapshotDetail::kAdapters);
  std::vector<std::string_view> paths;
  for (const auto& use : snapshot.adapters[0].paths) paths.push_back(use.path);
  EXPECT_EQ(paths, (std::vector<std::string_view>{"local", "tcp", "hca", "roce"}));
  ASSERT_EQ(snapshot.not_served.size(), 1U);
  EXPECT_EQ(snapshot.not_served[0].vm, "VM-02");
  EXPECT_FALSE(snapshot.tcp.listening);
}

TEST_F(ShardSnapshotsTest, SeesAVmComeAndGo) {
  {
    const auto client = vfio_user::Client::connect(socket_).value();
    ASSERT_TRUE(client->device_info());
    EXPECT_EQ(state(), "detached");
  }
  while (state() != "off") std::this_thread::yield();
}

std::uint64_t counter(const Snapshot& snapshot, std::string_view group, std::string_view name) {
  const auto in = std::ranges::find(snapshot.host, group, &CounterGroup::name);
  if (in == snapshot.host.end()) return 0;
  const auto it = std::ranges::find(in->counters, name, &Counter::name);
  return it == in->counters.end() ? 0 : it->value;
}

TEST(SnapshotOfTwoShards, HasTheAdaptersOfBothAndTheSumOfTheirCounters) {
  adapters::test::TwoShards two;
  const verbs::HostAccount account{TotalBudgets{}};
  ShardSnapshots snapshots(two.shards(), account);
  const auto tasks_of = [&two](std::size_t shard) {
    return shard::ask(two.loop(shard), std::chrono::minutes(1),
                      [&two, shard] { return two.loop(shard).counters().tasks; })
        .value();
  };
  constexpr std::uint64_t kQuestions = 5;
  std::uint64_t counted = 0;
  for (const std::size_t shard : {std::size_t{0}, std::size_t{1}}) {
    for (std::uint64_t i = 1; i < kQuestions; ++i) tasks_of(shard);
    counted += tasks_of(shard);
  }
  const Snapshot snapshot = snapshots.take_snapshot(SnapshotDetail::kAdaptersAndQps).value();
  ASSERT_EQ(snapshot.adapters.size(), 2U);
  EXPECT_EQ(snapshot.adapters[0].name, "VM-1");
  EXPECT_EQ(snapshot.adapters[1].name, "VM-2");
  EXPECT_EQ(std::ranges::count(snapshot.host, "shard", &CounterGroup::name), 1);
  EXPECT_GE(counter(snapshot, "shard", "tasks"), counted);
  EXPECT_LE(counter(snapshot, "shard", "tasks"), 2 * kQuestions);
  ASSERT_EQ(snapshot.shards.size(), 2U);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const ShardSnapshot& shard = snapshot.shards[i];
    EXPECT_EQ(shard.number, i);
    EXPECT_EQ(shard.adapters, std::vector{"VM-" + std::to_string(i + 1)});
    EXPECT_GT(shard.cpu_us, 0U);
    ASSERT_EQ(shard.groups.size(), 1U) << "these shards have no rings";
    EXPECT_EQ(shard.groups[0].name, "shard");
  }
}

TEST(SnapshotOfTwoShards, IsRefusedIfOneHasStopped) {
  adapters::test::TwoShards two;
  const verbs::HostAccount account{TotalBudgets{}};
  ShardSnapshots snapshots(two.shards(), account);
  two.stop(1);
  EXPECT_EQ(snapshots.take_snapshot(SnapshotDetail::kAdapters).error().kind, ErrorKind::kUnavailable);
}

class SnapshotWithAWard : public testing::Test {
 protected:
  Snapshot take(SnapshotDetail detail = SnapshotDetail::kAdaptersAndQps) {
    return snapshots_.take_snapshot(detail).value();
  }
  Snapshot take_while_ward_sleeps() {
    std::promise<void> asleep;
    std::promise<void> wakes;
    EXPECT_TRUE(two_.loop(1).post(shard::Task([&] {
      asleep.set_value();
      wakes.get_future().wait();
    })));
    asleep.get_future().wait();
    Snapshot late = take();
    wakes.set_value();
    return late;
  }

  adapters::Keeping keeping_{[] {}};
  adapters::test::TwoShards two_{&keeping_, nullptr, nullptr, adapters::test::Second::kWard};
  const verbs::HostAccount account_{TotalBudgets{}};
  ShardSnapshots snapshots_{two_.shards(), account_};
};

TEST_F(SnapshotWithAWard, HasTheLastAnswerOfAWardThatSleeps) {
  const Snapshot before = take(SnapshotDetail::kAdapters);
  EXPECT_FALSE(before.shards[0].is_ward);
  EXPECT_TRUE(before.shards[1].is_ward);
  EXPECT_EQ(before.shards[1].trouble, "");
  const Snapshot late = take_while_ward_sleeps();
  ASSERT_EQ(late.adapters.size(), 2U);
  EXPECT_EQ(late.adapters[0].trouble, "");
  EXPECT_EQ(late.adapters[1].name, "VM-2");
  for (const std::string& trouble : {late.adapters[1].trouble, late.shards[1].trouble})
    EXPECT_TRUE(trouble.starts_with("shard 1, the ward, does not answer: these are its values of "))
        << trouble;
  EXPECT_GE(counter(late, "shard", "tasks"), counter(before, "shard", "tasks"));
}

TEST_F(SnapshotWithAWard, HasAnAdapterThatLeftTheWardOnce) {
  take();
  adapters::ShardPlacement placement(two_.shards(), [](const std::string&) { return Result<void>(); });
  ASSERT_TRUE(placement.place("VM-2", 0));
  const Snapshot late = take_while_ward_sleeps();
  ASSERT_EQ(late.adapters.size(), 2U);
  for (const AdapterSnapshot& adapter : late.adapters) EXPECT_EQ(adapter.trouble, "");
  EXPECT_NE(late.shards[1].trouble, "");
}

TEST_F(SnapshotWithAWard, IsRefusedIfTheWardHasNeverAnswered) {
  two_.stop(1);
  const auto refused = snapshots_.take_snapshot(SnapshotDetail::kAdapters);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("shard 1, the ward: ")) << refused.error().message;
}

TEST_F(ShardSnapshotsTest, IsRefusedByAStoppedShard) {
  stop();
  const auto snapshot = snapshots_.take_snapshot(SnapshotDetail::kAdapters);
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().message, "the shard takes no questions now: it is stopping or overloaded");
}

}  // namespace
}  // namespace pvrdma::snapshots
