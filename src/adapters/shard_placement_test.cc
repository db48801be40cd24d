// Adapters that move between two shards, each with a thread. tests/process/test_shards.py has the traffic.
#include "adapters/shard_placement.h"

#include <array>
#include <atomic>
#include <filesystem>
#include <fmt/core.h>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "adapters/shard_captures.h"
#include "adapters/shard_faults.h"
#include "adapters/shard_links.h"
#include "adapters/two_shards_fixture.h"
#include "base/reaper.h"
#include "vfio_user/client.h"

namespace pvrdma::adapters {
namespace {

constexpr std::uint32_t kConfigRegion = 7;
constexpr std::uint64_t kBar0 = 0x10;

class LastPower final : public PowerObserver {
 public:
  void on_power(const std::string& vm, bool on) override {
    const std::lock_guard lock(mutex_);
    on_[vm] = on;
  }
  bool is_on(const std::string& vm) {
    const std::lock_guard lock(mutex_);
    return on_[vm];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, bool> on_;
};

// Refuses a move, or notes what it was asked.
class FakeViews final : public Views {
 public:
  Result<Placed> while_held(const std::string& adapter, std::uint32_t shard,
                            const std::function<Result<Placed>()>& move) override {
    asked = fmt::format("{} to {}", adapter, shard);
    if (!refusal.empty()) return fail(ErrorKind::kConflict, refusal);
    return move();
  }
  std::string asked;
  std::string refusal;
};

class ShardPlacementTest : public testing::Test {
 protected:
  static std::unique_ptr<vfio_user::Client> connect(const std::string& socket) {
    auto client = vfio_user::Client::connect(socket);
    EXPECT_TRUE(client) << client.error().message;
    return client ? *std::move(client) : nullptr;
  }
  static bool write_bar(vfio_user::Client& client, std::uint32_t value) {
    return client.region_write(kConfigRegion, kBar0, std::as_bytes(std::span(&value, 1))).has_value();
  }
  static std::uint32_t read_bar(vfio_user::Client& client) {
    std::uint32_t value = 0;
    EXPECT_TRUE(client.region_read(kConfigRegion, kBar0, std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }
  template <typename Work>
  auto on(const std::string& adapter, Work work) {
    return two_.shards().on(adapter, std::move(work), "a test's").value();
  }
  std::thread::id thread_of(const std::string& adapter) {
    return on(adapter, [](ServedAdapter&) -> Result<std::thread::id> { return std::this_thread::get_id(); });
  }
  bool is_on(std::size_t shard, const std::string& adapter) {
    return thread_of(adapter) == two_.thread_of(shard);
  }
  // Refused for this reason, and still served where it was.
  void expect_refused(const std::string& adapter, std::uint32_t shard, const std::string& why,
                      ErrorKind kind = ErrorKind::kConflict) {
    const auto before = thread_of(adapter);
    const auto refused = placement_.place(adapter, shard);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, why);
    EXPECT_EQ(refused.error().kind, kind);
    EXPECT_EQ(thread_of(adapter), before);
  }

  template <typename Work>
  auto on_set(std::size_t shard, Work work) {
    return shard::ask(two_.loop(shard), kShardPatience,
                      [&set = two_.shards()[shard].adapters, work] { return work(set); })
        .value();
  }
  // Tells a shard which VMs it serves, as a view of the cluster does.
  void want(std::size_t shard, const std::vector<WantedAdapter>& wanted) {
    on_set(shard, [wanted](AdapterSet& set) {
      set.set_wanted(wanted, {"VM-3"});
      return true;
    });
  }

  // Called on both shards; on the new one in the second step of a move.
  std::atomic<const std::function<void()>*> noticed_ = nullptr;
  Keeping keeping_{[this] {
    if (const auto* const noticed = noticed_.load()) (*noticed)();
  }};
  LastPower power_;
  test::TwoShards two_{&keeping_, nullptr, &power_};
  std::string busy_;  // why no adapter may move; empty: each may
  ShardPlacement placement_{two_.shards(), [this](const std::string&) {
                              return busy_.empty() ? Result<void>() : fail(ErrorKind::kConflict, busy_);
                            }};
};

TEST_F(ShardPlacementTest, AClientGoesOnWithItsAdapterOnTheOtherShardAndBack) {
  const auto client = connect(two_.socket(0));
  ASSERT_TRUE(write_bar(*client, 0xfe00'0000));
  for (const std::uint32_t shard : {1U, 0U, 1U}) {
    const auto placed = placement_.place("VM-1", shard);
    ASSERT_TRUE(placed) << placed.error().message;
    EXPECT_EQ(placed->from, 1 - shard);
    EXPECT_EQ(placed->to, shard);
    EXPECT_GT(placed->pause, Duration{0});
    EXPECT_TRUE(is_on(shard, "VM-1"));
    EXPECT_EQ(read_bar(*client), 0xfe00'0000);
    EXPECT_TRUE(
        on("VM-1", [](ServedAdapter& served) -> Result<bool> { return served.port().takes_messages(); }));
  }
  EXPECT_TRUE(is_on(1, "VM-2"));
  EXPECT_TRUE(write_bar(*client, 0xfd00'0000));
  EXPECT_EQ(read_bar(*client), 0xfd00'0000);
}

TEST_F(ShardPlacementTest, AnAdapterThatIsThereAlreadyStays) {
  const auto placed = placement_.place("VM-2", 1);
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->from, placed->to);
  EXPECT_EQ(placed->pause, Duration{0});
}

TEST_F(ShardPlacementTest, AVmThatIsOffHasItsSocketAndItsLinkOnTheOtherShard) {
  ShardLinks links(two_.shards());
  ASSERT_TRUE(links.set("VM-1", Link::kDown));
  ASSERT_TRUE(placement_.place("VM-1", 1));
  EXPECT_FALSE(
      on("VM-1", [](ServedAdapter& served) -> Result<bool> { return served.adapter().link_is_up(); }));
  ASSERT_TRUE(std::filesystem::exists(two_.socket(0)));
  auto client = connect(two_.socket(0));
  EXPECT_TRUE(write_bar(*client, 0xfe00'0000));
  client.reset();
  while (on("VM-1", [](ServedAdapter& served) -> Result<bool> { return served.has_client(); }))
    std::this_thread::yield();
  ASSERT_TRUE(placement_.place("VM-1", 0));
  EXPECT_TRUE(connect(two_.socket(0)));
}

TEST_F(ShardPlacementTest, AClientThatLeavesMeanwhileIsNoticedAfterwards) {
  auto client = connect(two_.socket(0));
  ASSERT_TRUE(client->device_info());
  shard::ask(two_.loop(0), kShardPatience, [this, &client] {
    ServedAdapter* const served = two_.shards()[0].adapters.find("VM-1");
    EXPECT_TRUE(served->begin_to_leave(Instant::now()));
    client.reset();
    return true;
  }).value();
  const auto has_client = [](ServedAdapter& served) -> Result<bool> { return served.has_client(); };
  EXPECT_TRUE(on("VM-1", has_client)) << "its end waits";
  on("VM-1", [](ServedAdapter& served) -> Result<bool> {
    served.settle();
    return true;
  });
  while (on("VM-1", has_client)) std::this_thread::yield();
  EXPECT_TRUE(connect(two_.socket(0)));
}

TEST_F(ShardPlacementTest, WhatTheOtherShardRefusesIsUndone) {
  const auto client = connect(two_.socket(0));
  ASSERT_TRUE(write_bar(*client, 0xfe00'0000));
  two_.refuse_memory(1, true);
  const auto refused = placement_.place("VM-1", 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOMEM);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnavailable);
  EXPECT_TRUE(is_on(0, "VM-1"));
  EXPECT_TRUE(
      on("VM-1", [](ServedAdapter& served) -> Result<bool> { return served.port().takes_messages(); }));
  EXPECT_EQ(read_bar(*client), 0xfe00'0000);
  EXPECT_TRUE(std::filesystem::exists(two_.socket(0)));
  two_.refuse_memory(1, false);
  ASSERT_TRUE(placement_.place("VM-1", 1));
  EXPECT_EQ(read_bar(*client), 0xfe00'0000);
}

TEST_F(ShardPlacementTest, AShardThatDoesNotAnswerLeavesTheAdapterWhereItIs) {
  const auto client = connect(two_.socket(1));
  ASSERT_TRUE(write_bar(*client, 0xfe00'0000));
  two_.stop(0);
  const auto refused = placement_.place("VM-2", 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(read_bar(*client), 0xfe00'0000);
}

TEST_F(ShardPlacementTest, WhatDoesNotExistIsSaid) {
  expect_refused("VM-1", 2, "there is no shard 2: this host has 0 to 1", ErrorKind::kInvalid);
  EXPECT_EQ(placement_.place("VM-1", 2).error().field, "shard");
  EXPECT_EQ(placement_.place("VM-7", 1).error().kind, ErrorKind::kNotFound);
  const Shards one({two_.shards()[0]});
  EXPECT_EQ(
      ShardPlacement(one, [](const std::string&) { return Result<void>(); }).place("VM-1", 0).error().message,
      "adapter VM-1 has no other shard to go to: this host has one; pvrdmactl --json system shard list says "
      "why");
}

TEST_F(ShardPlacementTest, AnAdapterThatIsInUseElsewhereStays) {
  busy_ = "adapter VM-1: a checkpoint of its VM is under way";
  expect_refused("VM-1", 1, busy_);
  busy_.clear();
  const auto client = connect(two_.socket(0));
  ASSERT_TRUE(client->device_info());
  const auto stays = [](const std::string& why) {
    return fmt::format("adapter VM-1 stays on its shard: {}: wait until that is over", why);
  };

  ASSERT_TRUE(on(
      "VM-1", [](ServedAdapter& served) -> Result<bool> { return served.expect_successor().has_value(); }));
  expect_refused("VM-1", 1, stays("another VMM is expected"));
  on("VM-1", [](ServedAdapter& served) -> Result<bool> {
    served.end_successor();
    return served.stop().has_value();
  });
  expect_refused(
      "VM-1", 1,
      "adapter VM-1 is stopped: its VM is being moved, or written to a file: wait until that is over");
  on("VM-1", [](ServedAdapter& served) -> Result<bool> {
    served.go_on();
    return served.seated().adapter().memory().start_log().has_value();
  });
  expect_refused("VM-1", 1, stays("the pages that it writes are logged"));
  on("VM-1", [](ServedAdapter& served) -> Result<bool> {
    served.seated().adapter().memory().stop_log();
    return true;
  });

  const SteadyClock clock;
  const auto reaper = Reaper::create().value();
  ShardFaults faults(two_.shards(), clock, *reaper, Injection::kAllowed);
  FaultWish wish;
  wish.adapter = "VM-1";
  ASSERT_TRUE(faults.add(wish));
  expect_refused("VM-1", 1, "adapter VM-1: faults are injected: pvrdmactl fault remove 1");
  ASSERT_TRUE(faults.remove(std::nullopt));

  ShardCaptures captures(two_.shards(), *reaper, "1.2.3");
  auto stream = captures.start({.adapter = "VM-1"}).value();
  expect_refused("VM-1", 1, stays("a capture is under way"));
  stream.reset();
  EXPECT_TRUE(placement_.place("VM-1", 1));
}

// The thread of shard 1 sleeps, once in each test, as that of the ward may.
class LateShardTest : public ShardPlacementTest {
 protected:
  LateShardTest() : client_(connect(two_.socket(0))) { EXPECT_TRUE(write_bar(*client_, 0xfe00'0000)); }
  void TearDown() override {
    noticed_ = nullptr;
    wake();
  }
  void sleep_in_second_step() {
    in_second_step_ = [this] {
      if (std::this_thread::get_id() == two_.thread_of(1) && !asleep_) sleep();
    };
    noticed_ = &in_second_step_;
  }
  void sleep_after_second_step() {
    in_second_step_ = [this] {
      if (std::this_thread::get_id() != two_.thread_of(1) || posted_.exchange(true)) return;
      EXPECT_TRUE(two_.loop(1).post([this] { sleep(); }));
    };
    noticed_ = &in_second_step_;
  }
  void sleep() {
    asleep_ = true;
    wakes_.get_future().wait();
  }
  void wake() {
    if (asleep_ && !awake_.exchange(true)) wakes_.set_value();
  }
  bool stands_still(std::size_t shard) {
    return on_set(shard, [](AdapterSet& set) { return set.find("VM-1")->adapter().is_stopped(); });
  }

  std::unique_ptr<vfio_user::Client> client_;
  std::function<void()> in_second_step_;
  std::atomic<bool> posted_ = false;
  std::atomic<bool> asleep_ = false;
  std::atomic<bool> awake_ = false;
  std::promise<void> wakes_;
};

TEST_F(LateShardTest, AnAdapterGoesOnWhereItIsUntilTheOtherShardAnswers) {
  ASSERT_TRUE(two_.loop(1).post([this] { sleep(); }));
  auto late = std::async(std::launch::async, [this] { return placement_.place("VM-1", 1); });
  while (late.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
    EXPECT_FALSE(stands_still(0));
  const auto refused = late.get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(refused.error().message, "shard 1: the shard did not answer in time: it is overloaded or stuck");
}

// Nobody waits for it but the adapter itself.
TEST_F(LateShardTest, AnAdapterThatIsMadeThereTooLateGoesOnWhereItWas) {
  sleep_in_second_step();
  const auto late = placement_.place("VM-1", 1);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::kUnavailable);
  EXPECT_TRUE(stands_still(0));
  // A motion or an upgrade that begins now must not take it for one that it has stopped itself.
  EXPECT_TRUE(on_set(0, [](AdapterSet& set) {
    ServedAdapter& served = *set.find("VM-1");
    served.outlive_client(true);
    const bool refused = !served.stop() && !served.expect_successor();
    served.outlive_client(false);
    return refused;
  }));
  wake();
  EXPECT_EQ(read_bar(*client_), 0xfe00'0000);
  EXPECT_FALSE(stands_still(0));
  EXPECT_TRUE(on_set(1, [](AdapterSet& set) { return set.find("VM-1") == nullptr; }));
  ASSERT_TRUE(placement_.place("VM-1", 1));
  EXPECT_EQ(read_bar(*client_), 0xfe00'0000);
}

TEST_F(LateShardTest, AnAdapterThatHasMovedGoesOnThereWhenItCan) {
  sleep_after_second_step();
  const auto placed = placement_.place("VM-1", 1);
  ASSERT_TRUE(placed) << placed.error().message;
  EXPECT_EQ(placed->to, 1U);
  EXPECT_TRUE(on_set(0, [](AdapterSet& set) { return set.find("VM-1") == nullptr; }));
  wake();
  EXPECT_EQ(read_bar(*client_), 0xfe00'0000);
  EXPECT_TRUE(is_on(1, "VM-1"));
}

TEST_F(LateShardTest, AQuestionThatSleepsThereKeepsNoMoveWaitingForEver) {
  std::thread asks([this] {
    static_cast<void>(two_.shards().on(
        "VM-2",
        [this](ServedAdapter&) -> Result<bool> {
          sleep();
          return true;
        },
        "a test's"));
  });
  while (!asleep_) std::this_thread::yield();
  const auto refused = placement_.place("VM-2", 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(refused.error().message, "the shards are busy with a question: try again in a moment");
  EXPECT_EQ(read_bar(*client_), 0xfe00'0000);
  wake();
  asks.join();
  EXPECT_TRUE(placement_.place("VM-2", 0));
}

// VM-3 is a VM of the cluster, on the first shard.
class VmPlacementTest : public ShardPlacementTest {
 protected:
  VmPlacementTest() {
    want(0, {vm_});
    client_ = connect(vm_.config.socket);
    EXPECT_TRUE(write_bar(*client_, 0xfe00'0000));
  }
  std::size_t adapters_of(std::size_t shard) {
    return on_set(shard, [](AdapterSet& set) { return set.adapters().size(); });
  }

  WantedAdapter vm_{{"VM-3",
                     testing::TempDir() + "vm_placement_" + std::to_string(::getpid()),
                     {2, 0, 0, 0, 0, 3},
                     HardwareVersion::k14,
                     RoceVersion::kV2},
                    {1, 7}};
  std::unique_ptr<vfio_user::Client> client_;
};

TEST_F(VmPlacementTest, AVmGoesOnWhereItWasMovedTo) {
  for (const std::uint32_t shard : {1U, 0U, 1U}) {
    const auto placed = placement_.place("VM-3", shard);
    ASSERT_TRUE(placed) << placed.error().message;
    EXPECT_TRUE(is_on(shard, "VM-3"));
    EXPECT_EQ(read_bar(*client_), 0xfe00'0000);
    want(1 - shard, {});
    want(shard, {vm_});
    EXPECT_EQ(adapters_of(1 - shard), 1U);
    EXPECT_EQ(read_bar(*client_), 0xfe00'0000) << "views do not disturb it";
    EXPECT_EQ(on("VM-3",
                 [](ServedAdapter& served) -> Result<transport::SegmentId> {
                   return served.port().fabric_switch().segment();
                 }),
              (transport::SegmentId{1, 7}));
    EXPECT_TRUE(power_.is_on("VM-3"));
  }
  want(1, {});
  EXPECT_TRUE(client_->device_info()) << "it is not wanted, but has a client";
  client_.reset();
  while (adapters_of(1) != 1) std::this_thread::yield();
  EXPECT_FALSE(std::filesystem::exists(vm_.config.socket));
  EXPECT_FALSE(power_.is_on("VM-3"));
}

// The sets look after their adapters at any time.
TEST_F(VmPlacementTest, NeitherShardRemovesAnAdapterThatMovesOrMakesAnother) {
  const auto moving = std::make_shared<const MovingAdapter>(
      on_set(0, [](AdapterSet& set) { return set.begin_to_leave("VM-3"); }).value());
  WantedAdapter changed = vm_;
  changed.config.mtu = 9000;
  for (const auto& wanted : {std::vector<WantedAdapter>{}, {changed}, {vm_}}) want(0, wanted);
  EXPECT_EQ(adapters_of(0), 2U);
  const auto follower = on_set(1, [moving](AdapterSet& set) { return set.begin_to_come(*moving); }).value();
  for (const auto& wanted : {std::vector<WantedAdapter>{}, {changed}, {vm_}}) want(1, wanted);
  EXPECT_EQ(adapters_of(1), 2U);
  client_.reset();
  on_set(0, [follower](AdapterSet& set) {
    set.hand_over("VM-3", follower);
    return true;
  });
  EXPECT_EQ(adapters_of(0), 1U);
  want(0, {});
  want(1, {changed});
  EXPECT_TRUE(on_set(1, [](AdapterSet& set) { return set.find("VM-3")->has_client(); }));
  on_set(1, [](AdapterSet& set) {
    set.settle("VM-3");
    return true;
  });
  while (power_.is_on("VM-3")) std::this_thread::yield();
  const auto mtu_bytes = [](ServedAdapter& served) -> Result<std::uint32_t> {
    return served.adapter().info().mtu_bytes;
  };
  while (on("VM-3", mtu_bytes) != 4096) std::this_thread::yield();
}

TEST_F(VmPlacementTest, AVmThatTheOtherShardRefusesStays) {
  two_.refuse_memory(1, true);
  ASSERT_FALSE(placement_.place("VM-3", 1));
  EXPECT_TRUE(is_on(0, "VM-3"));
  EXPECT_EQ(read_bar(*client_), 0xfe00'0000);
  two_.refuse_memory(1, false);
  want(1, {});
  EXPECT_EQ(adapters_of(1), 1U) << "nothing is left there";
  want(0, {vm_});
  EXPECT_EQ(adapters_of(0), 2U);
  EXPECT_EQ(read_bar(*client_), 0xfe00'0000);
  ASSERT_TRUE(placement_.place("VM-3", 1));
  EXPECT_EQ(read_bar(*client_), 0xfe00'0000);
}

// It was deleted while its VMM ran, and made again.
TEST_F(VmPlacementTest, AVmThatWasMadeAnewElsewhereStays) {
  want(0, {});
  want(1, {vm_});
  expect_refused("VM-3", 1,
                 "adapter VM-3 stays on its shard, because its VM was made anew: power it off first");
  EXPECT_EQ(read_bar(*client_), 0xfe00'0000);
}

TEST_F(VmPlacementTest, ARefusalGoesWithTheAdapter) {
  vm_.refusal = "a rule";
  want(0, {vm_});
  ASSERT_TRUE(placement_.place("VM-3", 1));
  EXPECT_EQ(on("VM-3", [](ServedAdapter& served) -> Result<std::string> { return served.refusal(); }),
            "a rule");
  EXPECT_EQ(read_bar(*client_), 0xfe00'0000);
}

TEST_F(ShardPlacementTest, NoViewComesMeanwhile) {
  FakeViews views;
  ShardPlacement placement(
      two_.shards(), [](const std::string&) { return Result<void>(); }, &views);
  ASSERT_TRUE(placement.place("VM-2", 1));
  EXPECT_EQ(views.asked, "") << "it is there already";
  ASSERT_TRUE(placement.place("VM-1", 1));
  EXPECT_EQ(views.asked, "VM-1 to 1");
  views.refusal = "VM VM-1 has to be on the second shard";
  EXPECT_EQ(placement.place("VM-1", 0).error().message, views.refusal);
  EXPECT_TRUE(is_on(1, "VM-1"));
  EXPECT_FALSE(placement.relieve({.adapter = "VM-2", .from = 1, .to = 0}));
  EXPECT_EQ(views.asked, "VM-1 to 0") << "an operator has left VM-2 where it is";
}

TEST_F(ShardPlacementTest, AnAdapterThatMovesIsAskedWhereItIs) {
  const std::jthread mover([this](const std::stop_token& stop) {
    for (std::uint32_t shard = 1; !stop.stop_requested(); shard = 1 - shard)
      EXPECT_TRUE(placement_.place("VM-1", shard));
  });
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(on("VM-1", [](ServedAdapter& served) -> Result<bool> {
      return served.port().takes_messages();
    })) << "no question meets it on its way";
    std::size_t found = 0;
    for (const auto& names : two_.shards().ask_all(
             [this](std::size_t shard) { return two_.shards()[shard].adapters.adapters().size(); },
             "a test's"))
      found += names.value();
    EXPECT_EQ(found, 2U);
  }
}

}  // namespace
}  // namespace pvrdma::adapters
