#include "cluster/presence.h"

#include <gtest/gtest.h>

#include "cluster/cluster_fixture.h"
#include "control/model/records.h"
#include "support/fake_store.h"

namespace pvrdma::cluster {
namespace {

using control::eventually;

control::ClusterConfig esx_01() {
  control::ClusterConfig config;
  config.host_name = "esx-01";
  config.socket_folder = "/run/pvrdma";
  config.vmnics = {"no-such-netdev"};
  return config;
}

class PresenceTest : public testing::Test {
 protected:
  PresenceTest() {
    auto store = std::make_unique<control::FakeStore>(cluster_);
    store_ = store.get();
    plane_ = control::Plane::start("esx-01", presence_.instance(), std::move(store), nullptr).value();
  }
  bool becomes(const std::string& key, const std::optional<std::string>& value) {
    return eventually([&] { return cluster_->find(key) == value; });
  }

  const std::shared_ptr<control::FakeCluster> cluster_ = std::make_shared<control::FakeCluster>();
  control::FakeStore* store_ = nullptr;  // owned by the plane
  std::unique_ptr<control::Plane> plane_;
  Presence presence_{esx_01(), "1.2.3", 2};
};

TEST(PresenceInstance, TellsTwoLivesApart) {
  const control::ClusterConfig config;
  EXPECT_NE(Presence(config, "1", 1).instance(), Presence(config, "1", 1).instance());
}

// What the earlier process left in the store is available without waiting.
TEST_F(PresenceTest, ALifeGoesOnInTheNextProcess) {
  presence_.publish_host(*plane_);
  const std::string key = control::live_host_key("esx-01");
  ASSERT_TRUE(eventually([&] { return cluster_->find(key).has_value(); }));
  const std::string before = *cluster_->find(key);
  plane_->leave_records();
  plane_.reset();
  ASSERT_EQ(cluster_->find(key), before);

  Presence next(esx_01(), "1.2.4", 2, presence_.instance());
  EXPECT_EQ(next.instance(), presence_.instance());
  plane_ = control::Plane::start("esx-01", next.instance(), std::make_unique<control::FakeStore>(cluster_),
                                 nullptr, std::chrono::seconds(5), [] { return true; })
               .value();  // does not wait
  next.publish_host(*plane_);
  EXPECT_TRUE(eventually([&] { return cluster_->find(key).value_or(before) != before; }))
      << "another version";
  EXPECT_EQ(plane_->store_state().live_conflicts, 0u);
}

// A VM may come to another shard then.
TEST_F(PresenceTest, TheNextProcessSaysOnWhichShardAGidIs) {
  must(plane_->edit([](control::Inventory& inventory) -> Result<void> {
    must(control::edits::add_host(inventory, "esx-01"));
    return control::edits::create_vm(inventory, {.name = "VM-01", .host = "esx-01", .memory_mib = 512});
  }));
  const GidBinding binding{{3, 7}, {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}};
  const std::string gid = control::gid_key({{3, 7}, "fe800000000000000000000000000001"});
  presence_.publish(GidNews::Changes{{binding, GidPort{"VM-01", transport::ShardNumber(1)}}}, *plane_);
  ASSERT_TRUE(becomes(gid, control::gid_value({"VM-01", "esx-01", 1})));
  plane_->leave_records();
  plane_.reset();

  const Presence next(esx_01(), "1.2.3", 2, presence_.instance());
  plane_ = control::Plane::start("esx-01", next.instance(), std::make_unique<control::FakeStore>(cluster_),
                                 nullptr)
               .value();
  next.publish(GidNews::Changes{{binding, GidPort{"VM-01", {}}}}, *plane_);
  EXPECT_TRUE(becomes(gid, control::gid_value({"VM-01", "esx-01"})));
  EXPECT_EQ(plane_->store_state().live_conflicts, 0u);
}

TEST_F(PresenceTest, JoinsOnce) {
  presence_.join_inventory(*plane_);
  EXPECT_TRUE(plane_->inventory()->hosts.contains("esx-01"));
  must(plane_->edit([](control::Inventory& inventory) -> Result<void> {
    inventory.hosts.erase("esx-01");
    return {};
  }));
  presence_.join_inventory(*plane_);
  EXPECT_FALSE(plane_->inventory()->hosts.contains("esx-01")) << "whom an admin removes stays removed";
}

TEST_F(PresenceTest, JoinsWhenTheStoreIsBack) {
  store_->go_away("no route to host");
  presence_.join_inventory(*plane_);
  EXPECT_FALSE(plane_->inventory()->hosts.contains("esx-01"));
  store_->come_back();
  presence_.join_inventory(*plane_);
  EXPECT_TRUE(plane_->inventory()->hosts.contains("esx-01"));
}

TEST_F(PresenceTest, PublishesWhatTheHostHas) {
  presence_.publish_host(*plane_);
  ASSERT_TRUE(eventually([this] { return plane_->inventory()->live_hosts.contains("esx-01"); }));
  const control::LiveHost live = plane_->inventory()->live_hosts.at("esx-01");
  EXPECT_EQ(live.version, "1.2.3");
  EXPECT_EQ(live.instance, presence_.instance());
  EXPECT_EQ(live.socket_folder, "/run/pvrdma");
  EXPECT_EQ(live.shards, 2);
  ASSERT_EQ(live.vmnics.size(), 1U);
  EXPECT_EQ(live.vmnics[0].netdev, "no-such-netdev");
}

TEST_F(PresenceTest, PublishesGidsAndVms) {
  const GidBinding binding{{3, 7}, {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}};
  const std::string gid = control::gid_key({{3, 7}, "fe800000000000000000000000000001"});
  presence_.publish(GidNews::Changes{{binding, GidPort{"VM-01", {}}}}, *plane_);
  presence_.publish(PowerNews::Changes{{"VM-01", std::monostate{}}}, *plane_);
  EXPECT_TRUE(becomes(gid, control::gid_value({"VM-01", "esx-01"})));
  EXPECT_TRUE(becomes(control::power_key("VM-01"), "esx-01"));
  presence_.publish(GidNews::Changes{{binding, GidPort{"VM-01", transport::ShardNumber(1)}}}, *plane_);
  EXPECT_TRUE(becomes(gid, control::gid_value({"VM-01", "esx-01", 1})));
  // The VM is moved between the shards, more often than the rates allow. The record never vanishes.
  for (int i = 0; i < 5; ++i) {
    presence_.publish(GidNews::Changes{{binding, GidPort{"VM-01", {}, true}}}, *plane_);
    EXPECT_TRUE(becomes(gid, control::gid_value({"VM-01", "esx-01"})));
    presence_.publish(GidNews::Changes{{binding, GidPort{"VM-01", transport::ShardNumber(1), true}}},
                      *plane_);
    EXPECT_TRUE(becomes(gid, control::gid_value({"VM-01", "esx-01", 1})));
  }
  for (const control::Transaction& each : cluster_->committed()) {
    for (const control::Change& change : each.changes) EXPECT_TRUE(change.key != gid || change.value);
  }
  presence_.publish(GidNews::Changes{{binding, std::nullopt}}, *plane_);
  presence_.publish(PowerNews::Changes{{"VM-01", std::nullopt}}, *plane_);
  EXPECT_TRUE(becomes(gid, std::nullopt));
  EXPECT_TRUE(becomes(control::power_key("VM-01"), std::nullopt));
}

}  // namespace
}  // namespace pvrdma::cluster
