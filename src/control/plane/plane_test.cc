#include "control/plane/plane.h"

#include <cerrno>
#include <filesystem>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "control/model/edits.h"
#include "control/model/records.h"
#include "support/fake_store.h"

namespace pvrdma::control {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

Plane::Edit add_host(const std::string& name) {
  return [name](Inventory& inventory) { return edits::add_host(inventory, name); };
}

LiveHost alive(const std::string& name, const std::string& instance) {
  LiveHost host;
  host.name = name;
  host.instance = instance;
  return host;
}

struct Member {
  explicit Member(const std::shared_ptr<FakeCluster>& cluster, PlaneObserver* observer = nullptr,
                  const std::string& name = "esx-01") {
    auto made = std::make_unique<FakeStore>(cluster);
    store = made.get();
    plane = Plane::start(name, "i-" + name, std::move(made), observer).value();
  }
  FakeStore* store = nullptr;  // owned by `plane`
  std::unique_ptr<Plane> plane;
};

class PlaneTest : public testing::Test {
 protected:
  const std::shared_ptr<FakeCluster> cluster_ = std::make_shared<FakeCluster>();
};

TEST_F(PlaneTest, StartsWithWhatTheStoreHas) {
  { ASSERT_TRUE(Member(cluster_).plane->edit(add_host("esx-07"))); }
  const Member member(cluster_);
  EXPECT_TRUE(member.plane->inventory()->hosts.contains("esx-07"));
  EXPECT_EQ(member.plane->inventory()->revision, 1U);
  EXPECT_TRUE(member.plane->store_state().connected);
  EXPECT_EQ(member.plane->store_state().description, "fake");
}

TEST_F(PlaneTest, AnEditStandsEvenIfNobodyCanBeToldOfIt) {
  const Member member(cluster_);
  EXPECT_TRUE(member.plane->edit(add_host("esx-01"),
                                 [](const Inventory&, const Inventory&) { throw std::bad_alloc(); }));
  EXPECT_TRUE(member.plane->inventory()->hosts.contains("esx-01"));
  EXPECT_EQ(member.plane->store_state().edits, 1U);
}

TEST_F(PlaneTest, GivesTheClusterAnIdThatStays) {
  const auto id_of = [](const Member& member, const std::string& host) {
    EXPECT_TRUE(member.plane->edit(add_host(host)));
    return member.plane->inventory()->cluster_id;
  };
  const Member member(cluster_);
  const std::uint64_t id = id_of(member, "esx-01");
  EXPECT_NE(id, 0U);
  EXPECT_EQ(id_of(member, "esx-02"), id);
  const Member other_cluster(std::make_shared<FakeCluster>());
  EXPECT_NE(id_of(other_cluster, "esx-01"), id);
}

TEST_F(PlaneTest, CommitsTheDifferenceUnderTheGuard) {
  const Member member(cluster_);
  ASSERT_TRUE(member.plane->edit(add_host("esx-01")));
  const auto guard = cluster_->find(std::string(kGuardKey));
  ASSERT_TRUE(member.plane->edit(add_host("esx-02")));
  EXPECT_TRUE(member.plane->inventory()->hosts.contains("esx-02")) << "on return";

  const auto committed = cluster_->committed();
  ASSERT_EQ(committed.size(), 2U);
  ASSERT_EQ(committed[1].expects.size(), 1U);
  EXPECT_EQ(committed[1].expects[0].key, kGuardKey);
  EXPECT_EQ(committed[1].expects[0].value, guard);
  ASSERT_EQ(committed[1].changes.size(), 2U) << "the guard and the new host, not the old one";
  EXPECT_EQ(member.plane->inventory()->revision, 2U);
  EXPECT_EQ(member.plane->store_state().edits, 2U);
}

TEST_F(PlaneTest, CommitsNothingWhenNothingChangesOrTheEditRefuses) {
  const Member member(cluster_);
  EXPECT_TRUE(member.plane->edit([](Inventory&) { return Result<void>{}; }));
  const auto refused = member.plane->edit([](Inventory& inventory) -> Result<void> {
    inventory.hosts["esx-09"].name = "esx-09";
    return fail(ErrorKind::kConflict, "not this one");
  });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_FALSE(member.plane->inventory()->hosts.contains("esx-09"));
  EXPECT_TRUE(cluster_->committed().empty());
}

TEST_F(PlaneTest, ARehearsalAnswersAsTheEditWouldAndCommitsNothing) {
  cluster_->put("config/host/esx-09", "[not a host");
  const Member member(cluster_);
  bool ran = false;
  EXPECT_TRUE(member.plane->rehearse([&](Inventory& inventory) {
    ran = true;
    return edits::add_host(inventory, "esx-01");
  }));
  EXPECT_TRUE(ran);
  for (const auto& edit : {add_host("esx-09"), add_host("no name")}) {
    const auto tried = member.plane->rehearse(edit);
    ASSERT_FALSE(tried);
    EXPECT_EQ(tried.error().message, member.plane->edit(edit).error().message);
  }
  member.store->go_away("connection refused");
  const auto away = member.plane->rehearse(add_host("esx-01"));
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().kind, ErrorKind::kUnavailable);
  EXPECT_TRUE(cluster_->committed().empty());
  EXPECT_TRUE(member.plane->inventory()->hosts.empty());
}

TEST_F(PlaneTest, AnEditThatThrowsEndsItsTurn) {
  const Member member(cluster_);
  EXPECT_THROW(static_cast<void>(member.plane->edit(
                   [](Inventory&) -> Result<void> { throw std::runtime_error("out of something"); })),
               std::runtime_error);
  EXPECT_TRUE(member.plane->edit(add_host("esx-07")));
}

TEST_F(PlaneTest, TriesAgainOnWhatAFasterHostMade) {
  const Member slow(cluster_);
  const Member fast(cluster_, nullptr, "esx-02");
  int runs = 0;
  std::vector<std::pair<std::size_t, std::size_t>> told;  // hosts before and after
  ASSERT_TRUE(slow.plane->edit(
      [&](Inventory& inventory) {
        if (++runs == 1) {
          EXPECT_TRUE(fast.plane->edit(add_host("esx-02")));
        }
        return edits::add_host(inventory, "esx-01");
      },
      [&told](const Inventory& before, const Inventory& after) {
        told.emplace_back(before.hosts.size(), after.hosts.size());
      }));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(told, (std::vector<std::pair<std::size_t, std::size_t>>{{1, 2}}));
  EXPECT_EQ(slow.plane->store_state().conflicts, 1U);
  for (const Member* member : {&slow, &fast}) {
    EXPECT_TRUE(member->plane->inventory()->hosts.contains("esx-01"));
    EXPECT_TRUE(member->plane->inventory()->hosts.contains("esx-02"));
    EXPECT_EQ(member->plane->inventory()->revision, 2U);
  }
}

TEST_F(PlaneTest, ReadsTheStoreWhenTheNoticeOfTheFasterHostIsLate) {
  const Member slow(cluster_);
  const Member fast(cluster_, nullptr, "esx-02");
  int runs = 0;
  slow.store->hold_notices();
  ASSERT_TRUE(slow.plane->edit([&](Inventory& inventory) {
    if (++runs == 1) {
      EXPECT_TRUE(fast.plane->edit(add_host("esx-02")));
    } else {
      EXPECT_TRUE(inventory.hosts.contains("esx-02"));
      slow.store->release_notices();
    }
    return edits::add_host(inventory, "esx-01");
  }));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(slow.plane->inventory()->hosts.size(), 2U);
}

TEST_F(PlaneTest, GivesUpWhenOthersAreAlwaysFaster) {
  const Member slow(cluster_);
  const Member fast(cluster_, nullptr, "esx-02");
  int runs = 0;
  const auto edited = slow.plane->edit([&](Inventory& inventory) {
    EXPECT_TRUE(fast.plane->edit(add_host("other-" + std::to_string(++runs))));
    return edits::add_host(inventory, "esx-01");
  });
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(edited.error().message, HasSubstr("nothing was changed"));
  EXPECT_EQ(runs, 8);
  EXPECT_FALSE(slow.plane->inventory()->hosts.contains("esx-01"));
}

TEST_F(PlaneTest, LosesNoEditOfManyAtOnce) {
  const Member one(cluster_);
  const Member two(cluster_, nullptr, "esx-02");
  std::vector<std::thread> admins;
  for (int admin = 0; admin < 4; ++admin) {
    admins.emplace_back([&, admin] {
      Plane& plane = admin % 2 == 0 ? *one.plane : *two.plane;
      for (int i = 0; i < 10; ++i) {
        const std::string name = "h-" + std::to_string(admin) + "-" + std::to_string(i);
        auto done = plane.edit(add_host(name));
        while (!done && done.error().kind == ErrorKind::kUnavailable) done = plane.edit(add_host(name));
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_TRUE(plane.inventory()->hosts.contains(name));
      }
    });
  }
  for (auto& admin : admins) admin.join();
  EXPECT_EQ(one.plane->inventory()->hosts.size(), 40U);
  EXPECT_EQ(one.plane->inventory()->revision, 40U);
  EXPECT_EQ(*one.plane->inventory(), *two.plane->inventory());
}

TEST_F(PlaneTest, RefusesEditsWhileTheStoreIsAwayAndCatchesUp) {
  const Member here(cluster_);
  const Member there(cluster_, nullptr, "esx-02");
  ASSERT_TRUE(here.plane->edit(add_host("esx-01")));
  here.store->go_away("connection refused");
  const auto edited = here.plane->edit(add_host("esx-03"));
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(edited.error().message,
            "store fake is away (connection refused): nothing was changed: try again when it is back");
  EXPECT_TRUE(here.plane->inventory()->hosts.contains("esx-01")) << "it stays as it was";
  EXPECT_FALSE(here.plane->store_state().connected);
  EXPECT_EQ(here.plane->store_state().trouble, "connection refused");

  ASSERT_TRUE(there.plane->edit(add_host("esx-02")));
  EXPECT_FALSE(here.plane->inventory()->hosts.contains("esx-02"));
  here.store->come_back();
  EXPECT_TRUE(here.plane->inventory()->hosts.contains("esx-02"));
  EXPECT_TRUE(here.plane->edit(add_host("esx-03")));
  EXPECT_EQ(here.plane->store_state().resyncs, 1U);
  EXPECT_EQ(here.plane->store_state().trouble, "");
}

TEST_F(PlaneTest, StartsWithoutItsStore) {
  auto store = std::make_unique<FakeStore>(cluster_);
  FakeStore* borrowed = store.get();
  borrowed->go_away("no route to host");
  const auto plane = Plane::start("esx-01", "i-1", std::move(store), nullptr, milliseconds(1));
  ASSERT_TRUE(plane);
  EXPECT_TRUE((*plane)->inventory()->hosts.empty());
  const auto edited = (*plane)->edit(add_host("esx-01"));
  ASSERT_FALSE(edited);
  EXPECT_THAT(edited.error().message, HasSubstr("no route to host"));
  borrowed->come_back();
  EXPECT_TRUE((*plane)->edit(add_host("esx-01")));
}

TEST_F(PlaneTest, TellsWhenACommitIsInDoubt) {
  const Member member(cluster_);
  member.store->lose_next_answer();
  const auto edited = member.plane->edit(add_host("esx-01"));
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(edited.error().message, HasSubstr("may or may not"));
  EXPECT_TRUE(member.plane->edit(add_host("esx-01"))) << "a second try finds it done";
}

TEST_F(PlaneTest, RefusesANameThatIsAlive) {
  cluster_->put(live_host_key("esx-01"), live_host_value(alive("esx-01", "another")));
  const auto plane =
      Plane::start("esx-01", "mine", std::make_unique<FakeStore>(cluster_), nullptr, milliseconds(1));
  ASSERT_FALSE(plane);
  EXPECT_EQ(plane.error().code, EADDRINUSE);
  EXPECT_THAT(plane.error().message, HasSubstr("another pvrdmad with the name esx-01 is alive"));
  EXPECT_TRUE(cluster_->find(live_host_key("esx-01")));
}

TEST_F(PlaneTest, WaitsForTheLeaseOfItsLastLife) {
  cluster_->put(live_host_key("esx-01"), live_host_value(alive("esx-01", "dead")));
  auto started = std::async(std::launch::async, [this] {
    return Plane::start("esx-01", "mine", std::make_unique<FakeStore>(cluster_), nullptr,
                        std::chrono::seconds(60));
  });
  EXPECT_EQ(started.wait_for(milliseconds(50)), std::future_status::timeout);
  cluster_->erase(live_host_key("esx-01"));
  EXPECT_TRUE(started.get());
}

TEST_F(PlaneTest, WaitsAsLongAsTheLeaseMayLast) {
  cluster_->put(live_host_key("esx-01"), live_host_value(alive("esx-01", "dead")));
  auto started = std::async(std::launch::async, [this] {
    auto store = std::make_unique<FakeStore>(cluster_);
    store->set_lease(std::chrono::seconds(600));
    return Plane::start("esx-01", "mine", std::move(store), nullptr, milliseconds(1));
  });
  EXPECT_EQ(started.wait_for(milliseconds(50)), std::future_status::timeout);
  cluster_->erase(live_host_key("esx-01"));
  EXPECT_TRUE(started.get());
}

TEST_F(PlaneTest, WaitsNoLongerWhenItIsAskedToStop) {
  cluster_->put(live_host_key("esx-01"), live_host_value(alive("esx-01", "dead")));
  auto store = std::make_unique<FakeStore>(cluster_);
  store->set_lease(std::chrono::seconds(600));
  int asked = 0;
  const auto plane = Plane::start("esx-01", "mine", std::move(store), nullptr, milliseconds(1),
                                  [&asked] { return ++asked == 2; });
  ASSERT_FALSE(plane);
  EXPECT_EQ(plane.error().code, ECANCELED);
  EXPECT_EQ(asked, 2);
}

// Records the calls as one line.
class Told final : public PlaneObserver {
 public:
  void on_inventory() override { add("inventory"); }
  void on_store(bool connected) override { add(connected ? "reached" : "away"); }
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(told_, "");
  }

 private:
  void add(const std::string& word) {
    const std::lock_guard lock(mutex_);
    told_ += word + " ";
  }
  std::mutex mutex_;
  std::string told_;
};

TEST_F(PlaneTest, TellsItsObserverThatThereIsNews) {
  Told told;
  {
    const Member here(cluster_, &told);
    const Member there(cluster_, nullptr, "esx-02");
    EXPECT_EQ(told.take(), "inventory reached ") << "what the store tells at the start";
    ASSERT_TRUE(here.plane->edit(add_host("esx-01")));
    EXPECT_EQ(told.take(), "inventory ");
    ASSERT_TRUE(there.plane->edit(add_host("esx-02")));
    EXPECT_EQ(told.take(), "inventory ");
    here.store->go_away("connection refused");
    EXPECT_EQ(told.take(), "away ");
    here.store->come_back();
    EXPECT_EQ(told.take(), "inventory reached ");
  }
  const Member there(cluster_, nullptr, "esx-02");
  ASSERT_TRUE(there.plane->edit(add_host("esx-03")));
  EXPECT_EQ(told.take(), "") << "its plane is gone";
}

TEST_F(PlaneTest, CountsRecordsItDoesNotUnderstandAndLeavesThemAlone) {
  cluster_->put("config/host/esx-09", "[not a host");
  const Member member(cluster_);
  EXPECT_EQ(member.plane->store_state().bad_records, 1U);
  EXPECT_FALSE(member.plane->inventory()->hosts.contains("esx-09"));
  const auto edited = member.plane->edit(add_host("esx-09"));
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().kind, ErrorKind::kConflict);
  EXPECT_THAT(edited.error().message, HasSubstr("config/host/esx-09"));
  EXPECT_EQ(cluster_->find("config/host/esx-09"), "[not a host");
  EXPECT_TRUE(member.plane->edit(add_host("esx-01"))) << "others go on";
  cluster_->erase("config/host/esx-09");
  EXPECT_TRUE(member.plane->edit(add_host("esx-09")));
}

TEST_F(PlaneTest, KeepsLiveRecordsAndGivesThemBack) {
  const std::string key = power_key("VM-01");
  const Member there(cluster_, nullptr, "esx-02");
  {
    const Member here(cluster_);
    here.plane->set_live(key, "esx-01");
    EXPECT_TRUE(eventually([&] { return there.plane->inventory()->is_on("VM-01"); }));
    there.plane->set_live(key, "esx-02");
    EXPECT_TRUE(eventually([&] { return there.plane->store_state().live_conflicts == 1; }));
    EXPECT_EQ(here.plane->inventory()->powered_on.at("VM-01"), "esx-01");
  }
  EXPECT_TRUE(eventually([&] {
    return there.plane->inventory()->is_on("VM-01") &&
           there.plane->inventory()->powered_on.at("VM-01") == "esx-02";
  }));
  there.plane->clear_live(key);
  EXPECT_TRUE(eventually([&] { return !there.plane->inventory()->is_on("VM-01"); }));
}

TEST(PlaneOnSqlite, KeepsEditsAndForgetsTheLiving) {
  const std::string path = testing::TempDir() + "plane_" + std::to_string(::getpid()) + ".db";
  const auto start = [&](const std::string& instance) {
    return Plane::start("esx-01", instance, make_sqlite_store({.path = path}), nullptr).value();
  };
  {
    const auto plane = start("first");
    ASSERT_TRUE(plane->edit(add_host("esx-01")));
    EXPECT_TRUE(plane->inventory()->hosts.contains("esx-01")) << "on return";
    plane->set_live(live_host_key("esx-01"), live_host_value(alive("esx-01", "first")));
    EXPECT_TRUE(eventually([&] { return plane->inventory()->live_hosts.contains("esx-01"); }));
  }
  const auto plane = start("second");
  EXPECT_TRUE(plane->inventory()->hosts.contains("esx-01"));
  EXPECT_TRUE(plane->inventory()->live_hosts.empty());
  EXPECT_EQ(plane->inventory()->revision, 1U);
  for (const char* suffix : {"", "-wal", "-shm", "-lock", ".lock"}) std::filesystem::remove(path + suffix);
}

}  // namespace
}  // namespace pvrdma::control
