#include "cluster/membership.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unistd.h>

#include "cluster/cluster_fixture.h"
#include "control/model/records.h"
#include "support/fake_store.h"

// Uses a real loop, and the real embedded store except where a test needs the store to fail.
namespace pvrdma::cluster {
namespace {

namespace fs = std::filesystem;
namespace edits = control::edits;

// Readers of the time wait while the test holds the clock.
class HeldClock final : public Clock {
 public:
  Instant now() const override {
    ++asking_;
    const std::lock_guard lock(mutex_);
    --asking_;
    return Instant::now();
  }
  Duration thread_cpu() const override { return SteadyClock().thread_cpu(); }
  [[nodiscard]] std::unique_lock<std::mutex> hold() const { return std::unique_lock(mutex_); }
  int asking() const { return asking_; }

 private:
  mutable std::mutex mutex_;
  mutable std::atomic<int> asking_ = 0;
};

class MembershipTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_);
    config_.host_name = "esx-01";
    config_.socket_folder = folder_;
    membership_ = std::make_unique<Membership>(
        config_, "1.2.3", std::vector<control::RoceConfig>{}, ShardCount{},
        std::vector<shard::Loop*>{loop_.get()}, held_clock_,
        [this](transport::ShardNumber /*shard*/, const ShardView& view) { take(view); });
    thread_ = std::thread([this] { loop_->run(); });
  }
  void TearDown() override {
    membership_->stop();
    loop_->stop();
    thread_.join();
    membership_.reset();
    fs::remove_all(folder_);
  }
  std::unique_ptr<control::Store> sqlite_store() const {
    return control::make_sqlite_store({folder_ + "/store.db"});
  }
  void take(const ShardView& view) {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(view_ == view) << "an equal view is not sent";
    EXPECT_EQ(std::this_thread::get_id(), thread_.get_id());
    view_ = view;
    ++views_;
    arrived_.notify_all();
  }
  void wait_for_view(const std::function<bool(const ShardView&)>& holds) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return view_ && holds(*view_); });
  }
  void edit(const control::Plane::Edit& change) { must(membership_->plane()->edit(change)); }
  // Live records reach the inventory on their own way, so the test waits for them.
  void wait_for_inventory(const std::function<bool(const control::Inventory&)>& holds) {
    while (!holds(*membership_->plane()->inventory()))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  const std::string folder_ = testing::TempDir() + "membership_test_" + std::to_string(::getpid());
  control::ClusterConfig config_;
  SteadyClock clock_;
  HeldClock held_clock_;  // used by the membership
  std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
  std::unique_ptr<Membership> membership_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<ShardView> view_;  // the latest one
  int views_ = 0;
  std::thread thread_;
};

TEST_F(MembershipTest, AFloodOfChangesIsAFewViewsAndTheLastIsWhole) {
  const auto cluster = std::make_shared<control::FakeCluster>();
  must(membership_->connect(std::make_unique<control::FakeStore>(cluster)));
  membership_->join();
  const auto begin = Instant::now();
  constexpr int kChanges = 400;
  for (int i = 0; i < kChanges; ++i) {
    cluster->put("config/host/other-" + std::to_string(i), "{}");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  wait_for_view([](const ShardView& view) { return view.fabric.hosts.size() == kChanges; });
  const auto pauses = (Instant::now() - begin) / std::chrono::milliseconds(50);
  const std::lock_guard lock(mutex_);
  EXPECT_LE(views_, pauses + 3);
}

TEST_F(MembershipTest, JoinsAndSendsViewsToTheShard) {
  must(membership_->connect(sqlite_store()));
  membership_->join();
  wait_for_inventory([](const control::Inventory& i) {
    return i.hosts.contains("esx-01") && i.live_hosts.contains("esx-01");
  });
  EXPECT_EQ(membership_->plane()->inventory()->live_hosts.at("esx-01").version, "1.2.3");
  EXPECT_EQ(membership_->plane()->inventory()->live_hosts.at("esx-01").socket_folder, folder_);
  edit([](control::Inventory& i) -> Result<void> {
    add_switch(i);
    must(edits::add_dvs_host(i, "dvs1", "esx-01"));
    add_vm(i, "VM-01", "esx-01");
    return {};
  });
  wait_for_view([](const ShardView& view) { return view.adapters.size() == 1; });
  edit([](control::Inventory& i) { return edits::delete_vm(i, "VM-01"); });
  wait_for_view([](const ShardView& view) { return view.adapters.empty(); });
}

TEST_F(MembershipTest, KeepsTheHostsLiveRecords) {
  must(membership_->connect(sqlite_store()));
  membership_->join();
  const verbs::Gid gid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  const control::GidKey key{{3, 7}, "fe800000000000000000000000000001"};
  membership_->on_power("VM-01", true);
  membership_->of_shard({}).on_gid_bound({3, 7}, gid, "VM-01");
  membership_->of_shard({}).on_gid_bound({}, gid, "static");
  wait_for_inventory([&](const control::Inventory& i) { return i.is_on("VM-01") && i.gids.contains(key); });
  EXPECT_EQ(membership_->plane()->inventory()->powered_on.at("VM-01"), "esx-01");
  EXPECT_EQ(membership_->plane()->inventory()->gids.at(key), (control::GidHolder{"VM-01", "esx-01"}));
  EXPECT_EQ(membership_->plane()->inventory()->gids.size(), 1U)
      << "the daemon's own segment is nobody's business";
  membership_->of_shard({}).on_gid_unbound({3, 7}, gid);
  membership_->on_power("VM-01", false);
  wait_for_inventory([&](const control::Inventory& i) { return !i.is_on("VM-01") && i.gids.empty(); });
}

TEST_F(MembershipTest, StopsWhileTheShardStillTells) {
  must(membership_->connect(sqlite_store()));
  membership_->join();
  membership_->stop();
  EXPECT_EQ(membership_->plane(), nullptr);
  membership_->on_power("VM-01", false);
  membership_->of_shard({}).on_gid_unbound({3, 7}, verbs::Gid{});
  membership_->of_shard({}).on_host_up(transport::HostId{1}, true);
}

// Leases ended unnoticed while the store could not be reached. The membership must know that even if the
// store is back by now.
TEST_F(MembershipTest, KnowsThatTheStoreWasAwayThoughItWasBusyMeanwhile) {
  const auto cluster = std::make_shared<control::FakeCluster>();
  auto store = std::make_unique<control::FakeStore>(cluster);
  control::FakeStore* const borrowed = store.get();
  must(membership_->connect(std::move(store)));
  membership_->join();
  edit([](control::Inventory& i) -> Result<void> {
    i = three_hosts();
    return {};
  });
  const std::string peer = control::live_host_key("esx-02");
  control::LiveHost live;
  live.name = "esx-02";
  cluster->put(peer, control::live_host_value(live));
  const auto reaches_peer = [](const ShardView& view) {
    const auto& hosts = view.fabric.hosts;
    return std::any_of(hosts.begin(), hosts.end(), [](const auto& host) {
      return host.name == "esx-02" && host.path == fabric::PathKind::kTcp;
    });
  };
  wait_for_view(reaches_peer);
  {
    const auto held = held_clock_.hold();
    membership_->of_shard({}).on_host_up(transport::HostId{7},
                                         true);  // wakes its thread, which reads the time
    ASSERT_TRUE(control::eventually([this] { return held_clock_.asking() == 1; }));
    borrowed->go_away("connection refused");
    cluster->erase(peer);
    borrowed->come_back();
  }
  edit([](control::Inventory& i) { return edits::delete_vm(i, "VM-01"); });
  wait_for_view([](const ShardView& view) { return view.adapters.empty(); });
  const std::lock_guard lock(mutex_);
  EXPECT_TRUE(reaches_peer(*view_));
}

// The store ends with the last reported state, however many states came before and however fast.
TEST_F(MembershipTest, PublishesTheLatestOfWhatFlaps) {
  must(membership_->connect(sqlite_store()));
  membership_->join();
  const auto flap = [this](std::uint8_t number, int times) {
    const verbs::Gid gid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}};
    for (int i = 0; i < times; ++i) {
      membership_->of_shard({}).on_gid_bound({3, 7}, gid, i + 1 == times ? "VM-01" : "VM-02");
      if (i + 1 < times || number % 2 == 0) membership_->of_shard({}).on_gid_unbound({3, 7}, gid);
    }
  };
  for (std::uint8_t number = 1; number <= 100; ++number) flap(number, 50);
  wait_for_inventory([](const control::Inventory& i) {
    return i.gids.size() == 50 && std::all_of(i.gids.begin(), i.gids.end(),
                                              [](const auto& gid) { return gid.second.port == "VM-01"; });
  });
}

TEST_F(MembershipTest, StopsWhileNewsWait) {
  must(membership_->connect(sqlite_store()));
  membership_->join();
  std::atomic<bool> done = false;
  std::thread shard([&] {
    for (std::uint8_t number = 0; !done; ++number) {
      const verbs::Gid gid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}};
      membership_->of_shard({}).on_gid_bound({3, 7}, gid, "VM-01");
      membership_->of_shard({}).on_host_up(transport::HostId{number}, number % 2 == 0);
      membership_->on_power("VM-01", number % 2 == 0);
    }
  });
  membership_->stop();
  done = true;
  shard.join();
  const auto plane = control::Plane::start("esx-02", "looks", sqlite_store(), nullptr).value();
  EXPECT_TRUE(plane->inventory()->gids.empty()) << "what it held is given back";
  EXPECT_FALSE(plane->inventory()->is_on("VM-01"));
  EXPECT_TRUE(plane->inventory()->live_hosts.empty());
}

// A host with one shard and a ward, whose thread sleeps and whose mailbox is full.
class LateWardTest : public MembershipTest {
 protected:
  void SetUp() override {
    MembershipTest::SetUp();
    ASSERT_TRUE(ward_->post([] {}));
    membership_ = std::make_unique<Membership>(
        config_, "1.2.3", std::vector<control::RoceConfig>{}, ShardCount{.ordinary = 1, .has_ward = true},
        std::vector<shard::Loop*>{loop_.get(), ward_.get()}, held_clock_,
        [this](transport::ShardNumber shard, const ShardView& view) {
          if (shard.value == 0) take(view);
        });
    must(membership_->connect(std::make_unique<control::FakeStore>(cluster_)));
    membership_->join();
  }
  void put_alive(const std::string& host) {
    control::LiveHost live;
    live.name = host;
    live.shards = 1;
    cluster_->put(control::live_host_key(host), control::live_host_value(live));
  }
  // How the shard reaches the only other host.
  void wait_for_path(fabric::PathKind path) {
    wait_for_view([path](const ShardView& view) {
      return view.fabric.hosts.size() == 1 && view.fabric.hosts[0].path == path;
    });
  }

  const std::shared_ptr<control::FakeCluster> cluster_ = std::make_shared<control::FakeCluster>();
  std::unique_ptr<shard::Loop> ward_ = shard::Loop::create({.mailbox_tasks = 1}, clock_).value();
};

TEST_F(LateWardTest, HoldsUpNobody) {
  wait_for_inventory([](const control::Inventory& i) { return i.hosts.contains("esx-01"); });
  edit([](control::Inventory& i) -> Result<void> {
    add_switch(i);
    must(edits::add_dvs_host(i, "dvs1", "esx-01"));
    return {};
  });
  for (std::size_t count = 1; count <= 3; ++count) {
    edit([count](control::Inventory& i) -> Result<void> {
      add_vm(i, "VM-0" + std::to_string(count), "esx-01");
      return {};
    });
    wait_for_view([count](const ShardView& view) { return view.adapters.size() == count; });
  }
  const auto is_moved = []() -> Result<adapters::Placed> { return adapters::Placed{}; };
  EXPECT_TRUE(membership_->while_held("VM-01", 1, is_moved));
  wait_for_view([](const ShardView& view) { return view.adapters.size() == 2; });
  membership_->stop();
}

TEST_F(LateWardTest, ThePeersOfThisHostCountItToo) {
  const auto says = [this](const std::string& what) {
    const auto value = cluster_->find(control::live_host_key("esx-01"));
    return value && value->find(what) != std::string::npos;
  };
  EXPECT_TRUE(control::eventually([&] { return says("\"shards\":2"); }));
}

// Its thread may have slept while the other host died.
TEST_F(LateWardTest, ItsConnectionsKeepNoHostAlive) {
  wait_for_inventory([](const control::Inventory& i) { return i.hosts.contains("esx-01"); });
  edit([](control::Inventory& i) -> Result<void> {
    must(edits::add_vmk(i, "esx-01", "vmk2", "10.0.0.1"));
    must(edits::set_advanced(i, "esx-01", edits::kPvrdmaVmknic, "vmk2"));
    must(edits::set_ruleset(i, "esx-01", edits::kRuleset, true, std::nullopt));
    add_host(i, "esx-02", 2);
    return {};
  });
  put_alive("esx-02");
  wait_for_path(fabric::PathKind::kTcp);
  const transport::HostId other = [this] {
    const std::lock_guard lock(mutex_);
    return view_->fabric.hosts[0].id;
  }();
  membership_->of_shard(transport::ShardNumber(1)).on_host_up(other, true);
  cluster_->erase(control::live_host_key("esx-02"));
  wait_for_path(fabric::PathKind::kNone);
}

TEST_F(MembershipTest, SaysWhyItCannotJoin) {
  Membership lost(config_, "1.2.3", {}, {}, {loop_.get()}, held_clock_,
                  [](transport::ShardNumber /*shard*/, const ShardView& /*view*/) {});
  const auto started = lost.connect(control::make_sqlite_store({folder_ + "/no-such-folder/store.db"}));
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("no-such-folder"), std::string::npos) << started.error().message;
}

// Two shards on one loop, and VM-01 on the first of them.
class HeldViewsTest : public MembershipTest {
 protected:
  void SetUp() override {
    MembershipTest::SetUp();
    membership_ = std::make_unique<Membership>(
        config_, "1.2.3", std::vector<control::RoceConfig>{}, ShardCount{.ordinary = 2},
        std::vector<shard::Loop*>{loop_.get(), loop_.get()}, held_clock_,
        [this](transport::ShardNumber shard, const ShardView& view) {
          const std::lock_guard lock(mutex_);
          vms_[shard.value] = view.adapters_of_host;
          for (const auto& each : view.adapters) shard_of_[each.config.name] = shard.value;
          ++views_;
          arrived_.notify_all();
        });
    auto store = std::make_unique<control::FakeStore>(cluster_);
    store_ = store.get();
    must(membership_->connect(std::move(store)));
    membership_->join();
    wait_for_inventory([](const control::Inventory& i) { return i.hosts.contains("esx-01"); });
    edit([](control::Inventory& i) -> Result<void> {
      add_switch(i);
      must(edits::add_dvs_host(i, "dvs1", "esx-01"));
      add_vm(i, "VM-01", "esx-01");
      return {};
    });
    wait_for_shard("VM-01", 0);
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return vms_[0].contains("VM-01") && vms_[1].contains("VM-01"); });
  }
  void wait_for_shard(const std::string& vm, std::uint16_t shard) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return shard_of_.contains(vm) && shard_of_.at(vm) == shard; });
  }
  int views() {
    const std::lock_guard lock(mutex_);
    return views_;
  }
  Result<adapters::Placed> while_held(
      const std::string& adapter, const std::function<void()>& meanwhile = [] {}) {
    return membership_->while_held(adapter, 1, [&meanwhile]() -> Result<adapters::Placed> {
      meanwhile();
      return adapters::Placed{};
    });
  }
  void expect_refused(ErrorKind kind, const std::string& why) {
    const auto refused = while_held("VM-01", [] { ADD_FAILURE() << "it must not move"; });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, kind);
    EXPECT_EQ(refused.error().message, why);
  }

  const std::shared_ptr<control::FakeCluster> cluster_ = std::make_shared<control::FakeCluster>();
  control::FakeStore* store_ = nullptr;                 // owned by the plane
  std::map<std::uint16_t, std::set<std::string>> vms_;  // of this host, as each shard knows them
  std::map<std::string, std::uint16_t> shard_of_;       // by VM, as the latest view has it
};

TEST_F(HeldViewsTest, NoViewIsSentWhileAVmMovesAndThenTheyHaveItOnItsNewShard) {
  const auto add_another = [this] {
    const int before = views();
    edit([](control::Inventory& i) -> Result<void> {
      add_vm(i, "VM-02", "esx-01");
      return {};
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // several pauses between views
    EXPECT_EQ(views(), before);
  };
  ASSERT_TRUE(while_held("VM-01", add_another));
  wait_for_shard("VM-01", 1);
  wait_for_shard("VM-02", 0);
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return vms_.at(0) == vms_.at(1); });
}

TEST_F(HeldViewsTest, AVmThatDidNotMoveIsWhereItWas) {
  const auto refused = membership_->while_held(
      "VM-01", 1, []() -> Result<adapters::Placed> { return fail("there is no memory"); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "there is no memory");
  edit([](control::Inventory& i) -> Result<void> {
    add_vm(i, "VM-02", "esx-01");
    return {};
  });
  wait_for_shard("VM-02", 1);
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(shard_of_.at("VM-01"), 0);
}

TEST_F(HeldViewsTest, AVmStaysThatHasToBeOnTheFirstShard) {
  control::LiveHost older;
  older.name = "esx-09";
  older.version = "0.9";
  edit([](control::Inventory& i) { return edits::add_host(i, "esx-09"); });
  cluster_->put(control::live_host_key("esx-09"), control::live_host_value(older));
  while (while_held("VM-01")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  expect_refused(ErrorKind::kConflict,
                 "VM VM-01 has to be on the first shard, as all VMs of this host: host esx-09 runs release "
                 "0.9, which knows of one only");
  EXPECT_TRUE(while_held("an adapter of the configuration"));
}

TEST_F(HeldViewsTest, AVmStaysWhileOtherHostsCannotLearnOfItsShard) {
  store_->go_away("no route to host");
  expect_refused(ErrorKind::kUnavailable,
                 "VM VM-01 stays on its shard while the store cannot be reached, because other hosts would "
                 "not learn of another one: no route to host");
  EXPECT_TRUE(while_held("an adapter of the configuration"));
  store_->come_back();
  EXPECT_TRUE(while_held("VM-01"));
}

// Here another move has the views, instead of a thread that is busy with one for too long.
TEST_F(HeldViewsTest, AMoveDoesNotWaitForEver) {
  EXPECT_TRUE(while_held("VM-01", [this] {
    std::thread([this] {
      expect_refused(ErrorKind::kUnavailable, "a view of the cluster is being made: try again in a moment");
    }).join();
  }));
  wait_for_shard("VM-01", 1);
}

TEST_F(HeldViewsTest, TheRecordsOfAVmsGidsSayWhereItHasMovedTo) {
  const verbs::Gid gid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  const std::string key = control::gid_key({{3, 7}, "fe800000000000000000000000000001"});
  const auto says = [&](std::optional<std::uint16_t> shard) {
    return control::eventually([&] {
      return cluster_->find(key) == control::gid_value({"VM-01", "esx-01", shard});
    });
  };
  membership_->of_shard({}).on_gid_bound({3, 7}, gid, "VM-01");
  ASSERT_TRUE(says(std::nullopt));
  for (int i = 0; i < 5; ++i) {
    membership_->of_shard(transport::ShardNumber(1)).on_gid_moved({3, 7}, gid);
    EXPECT_TRUE(says(1));
    membership_->of_shard({}).on_gid_moved({3, 7}, gid);
    EXPECT_TRUE(says(std::nullopt));
  }
  membership_->of_shard({}).on_gid_unbound({3, 7}, gid);
  EXPECT_TRUE(control::eventually([&] { return !cluster_->find(key); }));
}

}  // namespace
}  // namespace pvrdma::cluster
