#include "cluster/linger.h"

#include <gtest/gtest.h>

#include "cluster/cluster_fixture.h"

namespace pvrdma::cluster {
namespace {

using namespace std::chrono_literals;
namespace edits = control::edits;

// esx-01 has seen esx-02 and its GID. Then the live records vanish.
class LingerTest : public testing::Test {
 protected:
  LingerTest() {
    full_.gids[key_] = {"VM-02", "esx-02"};
    linger_.apply(full_, now_, nobody);
    bare_.live_hosts.clear();
  }
  bool knows_peer(const control::Inventory& newest) {
    const control::Inventory used = linger_.apply(newest, now_, is_up_);
    EXPECT_EQ(used.live_hosts.contains("esx-02"), used.gids.contains(key_));
    return used.gids.contains(key_);
  }
  bool knows_gid(const control::Inventory& newest) {
    return linger_.apply(newest, now_, is_up_).gids.contains(key_);
  }

  static bool nobody(const std::string&) { return false; }

  Instant now_{1000s};
  bool up_ = false;  // a connection to esx-02 is up
  const Linger::IsUp is_up_ = [this](const std::string& host) { return up_ && host == "esx-02"; };
  control::Inventory full_ = three_hosts();
  control::Inventory bare_ = full_;  // without live records
  const control::GidKey key_ = gid_key(full_, "a2");
  Linger linger_{"esx-01"};
};

TEST_F(LingerTest, BelievesAStoreThatItCanReach) {
  EXPECT_FALSE(knows_peer(bare_));
  EXPECT_FALSE(linger_.keeps());
}

TEST_F(LingerTest, KeepsWhatVanishesWhileTheStoreIsAwayAndForAWhileAfter) {
  linger_.set_connected(false, now_);
  EXPECT_TRUE(knows_peer(bare_));
  now_ = now_ + 3600s;
  EXPECT_TRUE(knows_peer(bare_)) << "for as long as it is away";
  linger_.set_connected(true, now_);
  now_ = now_ + (Linger::kGrace - 1s);
  linger_.set_connected(true, now_);
  EXPECT_TRUE(knows_peer(bare_));
  EXPECT_TRUE(linger_.keeps());
  now_ = now_ + 1s;
  EXPECT_FALSE(knows_peer(bare_));
  EXPECT_FALSE(linger_.keeps());
}

TEST_F(LingerTest, NothingIsKeptThatIsThere) {
  linger_.set_connected(false, now_);
  linger_.set_connected(true, now_);
  EXPECT_EQ(linger_.apply(full_, now_, nobody), full_);
  EXPECT_FALSE(linger_.keeps());
}

TEST_F(LingerTest, KeepsAHostWhoseLeaseRanOutWhileConnectionsToItStand) {
  up_ = true;
  EXPECT_TRUE(knows_peer(bare_));
  EXPECT_TRUE(linger_.keeps());
  now_ = now_ + 3600s;
  EXPECT_TRUE(knows_peer(bare_)) << "for as long as they stand";
  up_ = false;
  EXPECT_TRUE(knows_peer(bare_)) << "a cable is out for a moment";
  up_ = true;
  EXPECT_TRUE(knows_peer(bare_));
  now_ = now_ + 3600s;
  up_ = false;
  EXPECT_TRUE(knows_peer(bare_));
  now_ = now_ + Linger::kGrace;
  EXPECT_FALSE(knows_peer(bare_));
  EXPECT_FALSE(linger_.keeps());
  up_ = true;
  EXPECT_FALSE(knows_peer(bare_)) << "gone is gone";
}

TEST_F(LingerTest, AHostThatComesBackHasTimeToPutItsGidsBack) {
  up_ = true;
  EXPECT_TRUE(knows_peer(bare_));
  control::Inventory back = full_;
  back.gids.clear();
  EXPECT_TRUE(knows_gid(back));
  now_ = now_ + (Linger::kGrace - 1s);
  EXPECT_TRUE(knows_gid(back));
  now_ = now_ + 1s;
  EXPECT_FALSE(knows_gid(back));
  EXPECT_FALSE(linger_.keeps());
}

TEST_F(LingerTest, AGidThatALivingHostGaveBackIsGoneAtOnce) {
  up_ = true;
  control::Inventory given_back = full_;
  given_back.gids.clear();
  EXPECT_FALSE(knows_gid(given_back));
}

TEST_F(LingerTest, NeverRevivesItsOwnRecords) {
  full_.gids[gid_key(full_, "a1")] = {"VM-01", "esx-01"};
  linger_.apply(full_, now_, nobody);
  linger_.set_connected(false, now_);
  const control::Inventory used = linger_.apply(bare_, now_, nobody);
  EXPECT_FALSE(used.live_hosts.contains("esx-01"));
  EXPECT_FALSE(used.gids.contains(gid_key(full_, "a1")));
}

TEST_F(LingerTest, WhatAdminsChangeCountsAtOnce) {
  linger_.set_connected(false, now_);
  linger_.set_connected(true, now_);
  control::Inventory moved = bare_;
  must(edits::change_vm(moved, "VM-02", {.host = "esx-03"}));
  EXPECT_FALSE(knows_gid(moved));
}

TEST_F(LingerTest, ARemovedVmOrHostOrPortGroupIsGoneAtOnce) {
  const auto after = [this](auto change) {
    Linger fresh("esx-01");
    fresh.apply(full_, now_, nobody);
    fresh.set_connected(false, now_);
    control::Inventory changed = bare_;
    change(changed);
    return fresh.apply(changed, now_, nobody);
  };
  EXPECT_TRUE(after([](control::Inventory&) {}).gids.contains(key_));
  EXPECT_FALSE(after([](control::Inventory& i) { must(edits::delete_vm(i, "VM-02")); }).gids.contains(key_));
  EXPECT_FALSE(
      after([](control::Inventory& i) { i.switches.at("dvs1").portgroups.clear(); }).gids.contains(key_));
  const auto removed = after([](control::Inventory& i) { i.hosts.erase("esx-02"); });
  EXPECT_FALSE(removed.live_hosts.contains("esx-02"));
}

TEST_F(LingerTest, ADaemonThatWasStartedAnewHoldsNothingOfBefore) {
  linger_.set_connected(false, now_);
  control::Inventory restarted = full_;
  restarted.gids.clear();
  EXPECT_TRUE(knows_gid(restarted)) << "its daemon still runs";
  restarted.live_hosts["esx-02"].instance = "another one";
  EXPECT_FALSE(knows_gid(restarted));
}

TEST_F(LingerTest, ANewHolderTakesOver) {
  linger_.set_connected(false, now_);
  control::Inventory taken = bare_;
  taken.gids[key_] = {"VM-03", "esx-03"};
  EXPECT_EQ(linger_.apply(taken, now_, nobody).gids.at(key_).host, "esx-03");
}

}  // namespace
}  // namespace pvrdma::cluster
