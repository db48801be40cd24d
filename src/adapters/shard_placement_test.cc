// Adapters that move between two shards, each with a thread. tests/process/test_shards.py has the traffic.
#include "adapters/shard_placement.h"

#include <array>
#include <filesystem>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>

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

  Keeping keeping_{[] {}};
  test::TwoShards two_{&keeping_};
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
