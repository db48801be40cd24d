#include "cluster/view_feed.h"

#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/event_ring.h"
#include "cluster/cluster_fixture.h"
#include "shard/ask.h"

namespace pvrdma::cluster {
namespace {

using namespace std::chrono_literals;
namespace edits = control::edits;

// esx-01's feed, and a shard that records its views.
class ViewFeedTest : public testing::Test {
 protected:
  ViewFeedTest() { inventory_.gids[gid_key(inventory_, "a2")] = {"VM-02", "esx-02"}; }
  void TearDown() override {
    loop_->stop();
    shard_.join();
  }
  void store_says(const control::Inventory& inventory) {
    feed_.set_inventory(std::make_shared<const control::Inventory>(inventory), now_);
  }
  // All views that the shard got so far. The next view does not replace them.
  std::vector<ShardView> views() {
    return shard::ask(*loop_, 1min, [this] { return views_; }).value();
  }
  bool shard_knows_peers_gid() { return !views().back().fabric.gids.empty(); }
  control::Inventory without_live_records() const {
    control::Inventory bare = inventory_;
    bare.live_hosts.clear();
    bare.gids.clear();
    return bare;
  }

  Instant now_{1000s};
  control::Inventory inventory_ = three_hosts();
  SteadyClock clock_;
  std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
  std::vector<ShardView> views_;  // used by the shard
  ViewFeed feed_{"esx-01",
                 "/run/pvrdma",
                 VmShards("esx-01", {.ordinary = 1}, {}),
                 {loop_.get()},
                 [this](transport::ShardNumber /*shard*/, const ShardView& view) { views_.push_back(view); }};
  std::thread shard_{[this] { loop_->run(); }};
};

TEST_F(ViewFeedTest, SendsWhatTheInventoryMeansForThisHost) {
  store_says(inventory_);
  ASSERT_EQ(views().size(), 1U);
  EXPECT_EQ(views()[0].adapters.at(0).config.socket, "/run/pvrdma/VM-01.sock");
  EXPECT_EQ(views()[0].fabric.hosts.size(), 2U);
  must(edits::delete_vm(inventory_, "VM-01"));
  store_says(inventory_);
  ASSERT_EQ(views().size(), 2U);
  EXPECT_TRUE(views()[1].adapters.empty());
}

TEST_F(ViewFeedTest, SendsNoEqualView) {
  store_says(inventory_);
  must(edits::create_vm(inventory_, {.name = "VM-09", .host = "esx-03", .memory_mib = 512}));
  store_says(inventory_);
  feed_.look_again(now_);
  EXPECT_EQ(views().size(), 1U) << "another host's VM without an adapter is nothing to this one";
}

// Two shards on one loop. A VM that comes changes what one serves; both learn of it, because both keep
// records.
TEST_F(ViewFeedTest, EachShardGetsItsViewWhenThatChanges) {
  std::map<std::uint16_t, std::vector<ShardView>> views;
  ViewFeed feed(
      "esx-01", "/run/pvrdma", VmShards("esx-01", {.ordinary = 2}, {}), {loop_.get(), loop_.get()},
      [&views](transport::ShardNumber shard, const ShardView& view) { views[shard.value].push_back(view); });
  const auto say = [&] {
    feed.set_inventory(std::make_shared<const control::Inventory>(inventory_), now_);
    return shard::ask(*loop_, 1min, [&views] { return views; }).value();
  };
  for (auto& [name, live] : inventory_.live_hosts) live.shards = 1;
  auto got = say();
  ASSERT_EQ(got[0].size(), 1U);
  EXPECT_EQ(got[0][0].adapters.size(), 1U);
  ASSERT_EQ(got[1].size(), 1U);
  EXPECT_TRUE(got[1][0].adapters.empty());
  add_vm(inventory_, "VM-04", "esx-01");
  got = say();
  ASSERT_EQ(got[1].size(), 2U);
  EXPECT_EQ(got[1][1].adapters.at(0).config.name, "VM-04");
  EXPECT_EQ(got[0].size(), 2U);
  must(edits::change_vm(inventory_, "VM-04", {.protocol = RoceVersion::kV1}));
  got = say();
  EXPECT_EQ(got[1].size(), 3U);
  EXPECT_EQ(got[0].size(), 2U) << "its own view is the same";
}

TEST_F(ViewFeedTest, BothShardsLearnThatAVmWasMoved) {
  std::map<std::uint16_t, std::vector<ShardView>> views;
  ViewFeed feed(
      "esx-01", "/run/pvrdma", VmShards("esx-01", {.ordinary = 2}, {}), {loop_.get(), loop_.get()},
      [&views](transport::ShardNumber shard, const ShardView& view) { views[shard.value].push_back(view); });
  for (auto& [name, live] : inventory_.live_hosts) live.shards = 1;
  EXPECT_FALSE(feed.has("VM-01"));
  feed.set_inventory(std::make_shared<const control::Inventory>(inventory_), now_);
  ASSERT_TRUE(feed.has("VM-01"));
  ASSERT_TRUE(feed.check("VM-01", 1));
  feed.move("VM-01", 1, now_);
  const auto got = shard::ask(*loop_, 1min, [&views] { return views; }).value();
  EXPECT_TRUE(got.at(0).back().adapters.empty());
  EXPECT_EQ(got.at(1).back().adapters.at(0).config.name, "VM-01");
}

TEST_F(ViewFeedTest, KeepsOthersWhileTheStoreIsAway) {
  feed_.set_store_connected(true, now_);
  store_says(inventory_);
  EXPECT_TRUE(shard_knows_peers_gid());
  feed_.set_store_connected(false, now_);
  now_ = now_ + 3600s;
  feed_.set_store_connected(true, now_);
  store_says(without_live_records());
  EXPECT_EQ(views().size(), 1U) << "the store is back, its records are not yet";
  now_ = now_ + (Linger::kGrace - 1s);
  feed_.look_again(now_);
  EXPECT_TRUE(shard_knows_peers_gid());
  now_ = now_ + 1s;
  feed_.look_again(now_);
  EXPECT_FALSE(shard_knows_peers_gid());
}

TEST_F(ViewFeedTest, KeepsAHostWhileConnectionsToItStand) {
  feed_.set_store_connected(true, now_);
  store_says(inventory_);
  const transport::HostId peer = views().at(0).fabric.gids.at(0).host;
  feed_.set_up({{}, peer}, true);
  store_says(without_live_records());
  now_ = now_ + 3600s;
  feed_.look_again(now_);
  EXPECT_TRUE(shard_knows_peers_gid());
  feed_.set_up({{}, peer}, false);
  feed_.look_again(now_);
  EXPECT_TRUE(shard_knows_peers_gid()) << "for a while";
  now_ = now_ + Linger::kGrace;
  feed_.look_again(now_);
  EXPECT_FALSE(shard_knows_peers_gid());
}

TEST_F(ViewFeedTest, TellsWhichHostsComeAndGo) {
  std::uint64_t seen = events::newest().last();
  const auto told = [&seen] {
    std::vector<std::string> texts;
    for (const events::Event& event : events::newest().page(seen, events::EventRing::kSlots).events) {
      if (event.type == events::Type::kHost) texts.push_back(event.text);
    }
    seen = events::newest().last();
    return texts;
  };
  feed_.set_store_connected(true, now_);
  store_says(inventory_);
  EXPECT_EQ(told(), (std::vector<std::string>{"host esx-02: it is alive", "host esx-03: it is alive"}));
  inventory_.live_hosts.erase("esx-03");
  store_says(inventory_);
  store_says(inventory_);
  EXPECT_EQ(told(),
            (std::vector<std::string>{"host esx-03: it is no longer alive: it has stopped, it was "
                                      "removed, or its lease in the store has ended and no connection "
                                      "to it is up"}));
}

}  // namespace
}  // namespace pvrdma::cluster
