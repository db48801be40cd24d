#include "control/plane/live_records.h"

#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

#include "support/fake_store.h"

namespace pvrdma::control {
namespace {

// Passes on the store's events.
struct Relay final : StoreObserver {
  explicit Relay(LiveRecords& live) : live_(live) {}
  void on_all(std::vector<KeyValue> records) override { live_.on_all(records); }
  void on_changes(std::vector<Change> changes) override { live_.on_changes(changes); }
  void on_connection(bool connected, std::string) override { live_.on_connection(connected); }
  void on_lease_lost() override { live_.on_lease_lost(); }
  LiveRecords& live_;
};

class LiveRecordsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store_.start(relay_));
    live_.start();
  }
  void TearDown() override {
    live_.stop();
    store_.stop(LeasedRecords::kGiveBack);
  }
  bool becomes(const std::string& key, const std::optional<std::string>& value) {
    return eventually([&] { return cluster_->find(key) == value; });
  }
  // All earlier requests are done.
  void settle() {
    live_.set("zz", std::to_string(++settled_));
    ASSERT_TRUE(becomes("zz", std::to_string(settled_)));
  }

  const std::shared_ptr<FakeCluster> cluster_ = std::make_shared<FakeCluster>();
  FakeStore store_{cluster_};
  LiveRecords live_{store_, "esx-01"};
  Relay relay_{live_};
  int settled_ = 0;
};

TEST_F(LiveRecordsTest, PutsReplacesAndDeletes) {
  live_.set("a", "1");
  EXPECT_TRUE(becomes("a", "1"));
  live_.set("a", "2");
  EXPECT_TRUE(becomes("a", "2"));
  live_.clear("a");
  EXPECT_TRUE(becomes("a", std::nullopt));
  live_.clear("a");
  settle();
  EXPECT_EQ(live_.conflicts(), 0U);
}

// As if a guest called CREATE_BIND and DESTROY_BIND in a loop, for one GID.
TEST_F(LiveRecordsTest, ARecordThatFlapsIsWrittenNowAndThenAndEndsAsItShould) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; std::chrono::steady_clock::now() - begin < 2 * WriteRates::kKeyPause; ++i) {
    live_.set("g", std::to_string(i), "VM-A");
    if (i % 2 == 0) live_.clear("g");
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  live_.set("g", "last", "VM-A");
  EXPECT_TRUE(becomes("g", "last"));
  const auto seconds = (std::chrono::steady_clock::now() - begin) / WriteRates::kKeyPause;
  EXPECT_LE(cluster_->committed().size(), static_cast<std::size_t>(seconds) + 1 + WriteRates::kKeyBurst);
}

// As above, with a new GID each time.
TEST_F(LiveRecordsTest, AVmThatWritesTooMuchDelaysNobodyElseAndLosesNothing) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 400; ++i) live_.set("a" + std::to_string(i), "v", "VM-A");
  live_.set("b", "v", "VM-B");
  ASSERT_TRUE(becomes("b", "v"));
  for (int i = 0; i < 400; ++i)
    if (i != 7) live_.clear("a" + std::to_string(i));
  live_.set("a7", "last", "VM-A");
  live_.set("b", "w", "VM-B");
  ASSERT_TRUE(becomes("b", "w"));
  std::size_t of_a = 0;
  for (const auto& transaction : cluster_->committed()) {
    for (const Change& change : transaction.changes) of_a += change.key.starts_with('a');
  }
  const auto earned = (std::chrono::steady_clock::now() - begin) / WriteRates::kTokenPause;
  EXPECT_LE(of_a, WriteRates::kBurst + static_cast<std::size_t>(earned) + 1);
}

// As if an operator moved a VM again and again: its peers wait for the record.
TEST_F(LiveRecordsTest, WhatNoGuestCausesIsWrittenAtOnceAndDelaysNothing) {
  constexpr int kMoves = 10;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kMoves; ++i) {
    live_.set("g", std::to_string(i), "VM-A", {}, Pace::kAtOnce);
    ASSERT_TRUE(becomes("g", std::to_string(i)));
  }
  live_.set("g", "last", "VM-A");
  EXPECT_TRUE(becomes("g", "last"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kMoves / 2 * WriteRates::kKeyPause);
}

TEST(WriteRates, ABurstAndThenARate) {
  WriteRates rates;
  const WriteRates::Time start{std::chrono::hours(1)};
  const auto key = [](std::uint32_t i) { return "k" + std::to_string(i); };
  for (std::uint32_t i = 0; i < WriteRates::kBurst; ++i) {
    ASSERT_EQ(rates.due(key(i), "VM", start), start) << i;
    rates.note(key(i), "VM", start);
  }
  EXPECT_EQ(rates.due("next", "VM", start), start + WriteRates::kTokenPause);
  EXPECT_EQ(rates.due("next", "other VM", start), start);
  EXPECT_EQ(rates.due("next", "", start), start);
  const auto later = start + WriteRates::kBurst * WriteRates::kTokenPause;
  for (std::uint32_t i = 0; i < WriteRates::kBurst; ++i) {
    ASSERT_EQ(rates.due(key(i), "VM", later), later) << "the burst is there again";
    rates.note(key(i), "VM", later);
  }
}

// A driver that is reloaded unbinds and binds a GID of its port. Peers that look the GID up should not miss
// it for longer than that.
TEST(WriteRates, AKeyGoesAndComesAtOnceAndThenItsPauseCounts) {
  WriteRates rates;
  const WriteRates::Time start{std::chrono::hours(1)};
  for (std::uint32_t i = 0; i < WriteRates::kKeyBurst; ++i) {
    ASSERT_EQ(rates.due("k", "", start), start) << i;
    rates.note("k", "", start);
  }
  const WriteRates::Time next = start + WriteRates::kKeyPause;
  EXPECT_EQ(rates.due("k", "", start), next);
  rates.note("k", "", next);
  EXPECT_EQ(rates.due("k", "", next), next + WriteRates::kKeyPause);
}

TEST_F(LiveRecordsTest, PutsManyAtOnce) {
  store_.go_away("not now");
  for (int i = 0; i < 40; ++i) live_.set("k" + std::to_string(i), "v");
  EXPECT_TRUE(cluster_->records().empty());
  store_.come_back();
  ASSERT_TRUE(eventually([&] { return cluster_->records().size() == 40; }));
  EXPECT_EQ(cluster_->committed().size(), 2U) << "32 and 8 in a transaction";
}

TEST_F(LiveRecordsTest, ChangesManyAtOnce) {
  store_.go_away("not now");
  for (const char* key : {"a", "b", "c"}) live_.set(key, "1");
  store_.come_back();
  ASSERT_TRUE(becomes("c", "1"));
  settle();
  const std::size_t before = cluster_->committed().size();
  store_.go_away("not now");
  for (const char* key : {"a", "b", "c"}) live_.set(key, "2", {}, "1");
  store_.come_back();
  ASSERT_TRUE(becomes("c", "2"));
  ASSERT_EQ(cluster_->committed().size(), before + 1);
  EXPECT_EQ(cluster_->committed()[before].changes.size(), 3U);
}

// If new records overtook deletions, a guest could fill the store: it would bind new GIDs, each before the
// record of the last one is deleted.
TEST_F(LiveRecordsTest, DoesFirstWhatWasAskedForFirst) {
  live_.set("z", "v");
  ASSERT_TRUE(becomes("z", "v"));
  settle();  // a record that changes while its last value is on its way comes last
  const std::size_t before = cluster_->committed().size();
  store_.go_away("not now");
  live_.clear("z");
  for (int i = 10; i < 74; ++i) live_.set("k" + std::to_string(i), "v");
  store_.come_back();
  ASSERT_TRUE(eventually([&] { return cluster_->records().size() == 65; }));
  const auto committed = cluster_->committed();
  ASSERT_EQ(committed.size(), before + 4);
  EXPECT_EQ(committed[before].changes.size(), LiveRecords::kBatchRecords - 1);
  EXPECT_EQ(committed[before + 1].changes, (std::vector<Change>{{"z", std::nullopt}}));
}

TEST_F(LiveRecordsTest, WaitsForAKeyThatAnotherHostHolds) {
  cluster_->put("a", "theirs");
  live_.set("a", "mine");
  live_.set("b", "mine");
  EXPECT_TRUE(becomes("b", "mine")) << "one that is taken holds up no other";
  EXPECT_TRUE(eventually([&] { return live_.conflicts() == 1; }));
  cluster_->put("a", "theirs again");
  settle();
  EXPECT_EQ(cluster_->find("a"), "theirs again");
  EXPECT_EQ(live_.conflicts(), 1U) << "once, however often it is tried";
  cluster_->erase("a");
  EXPECT_TRUE(becomes("a", "mine"));
  live_.clear("a");
  EXPECT_TRUE(becomes("a", std::nullopt));
}

TEST_F(LiveRecordsTest, DeletesOnlyItsOwn) {
  cluster_->put("a", "theirs");
  live_.set("a", "mine");
  EXPECT_TRUE(eventually([&] { return live_.conflicts() == 1; }));
  live_.clear("a");
  settle();
  EXPECT_EQ(cluster_->find("a"), "theirs");
  cluster_->erase("a");
  settle();
  EXPECT_FALSE(cluster_->find("a")) << "it is no longer wanted";
}

TEST_F(LiveRecordsTest, TakesOverWhatItsLastLifeLeft) {
  cluster_->put("a", "esx-01");
  live_.set("a", "esx-01");
  ASSERT_TRUE(eventually([&] { return !cluster_->committed().empty(); }));
  EXPECT_TRUE(cluster_->committed()[0].changes[0].leased) << "under the new lease";
  EXPECT_EQ(live_.conflicts(), 0U);
}

TEST_F(LiveRecordsTest, PutsAgainWhatIsLost) {
  live_.set("a", "1");
  live_.set("b", "2");
  ASSERT_TRUE(becomes("a", "1"));
  ASSERT_TRUE(becomes("b", "2"));
  store_.lose_lease();
  EXPECT_TRUE(becomes("a", "1")) << "the lease was lost";
  EXPECT_TRUE(becomes("b", "2"));
  cluster_->erase("a");
  EXPECT_TRUE(becomes("a", "1")) << "somebody deleted it";
  settle();
  store_.go_away("not now");
  cluster_->erase("b");
  store_.come_back();
  EXPECT_TRUE(becomes("b", "2")) << "it was gone when the store came back";
}

TEST_F(LiveRecordsTest, LeavesWhatItNoLongerWantsLost) {
  live_.set("a", "1");
  ASSERT_TRUE(becomes("a", "1"));
  live_.clear("a");
  ASSERT_TRUE(becomes("a", std::nullopt));
  store_.lose_lease();
  settle();
  EXPECT_FALSE(cluster_->find("a"));
}

// As if a guest bound and unbound a GID in a loop.
TEST_F(LiveRecordsTest, ForgetsWhatIsSetAndClearedWhileItsDeletionIsUnderWay) {
  live_.set("a", "1");
  ASSERT_TRUE(becomes("a", "1"));
  settle();
  int commits = 0;
  store_.before_commit([&] {
    switch (++commits) {
      case 1:  // the deletion of "a"; after this, "a" needs another task
        live_.set("b", "1");
        live_.set("a", "2");
        live_.clear("a");
        break;
      case 2:  // the put of "b"; the task of "a" in the same batch finds nothing to delete
        live_.set("a", "3");
        live_.clear("a");
        break;
      default:
        break;
    }
  });
  live_.clear("a");
  EXPECT_TRUE(becomes("b", "1"));
  settle();
  EXPECT_GE(commits, 3);
  EXPECT_FALSE(cluster_->find("a"));
}

TEST_F(LiveRecordsTest, ReachesTheNewestValueWhenAnswersAreLost) {
  store_.lose_next_answer();
  live_.set("a", "1");
  ASSERT_TRUE(becomes("a", "1"));
  live_.set("a", "2");
  EXPECT_TRUE(becomes("a", "2"));
  store_.lose_next_answer();
  live_.set("a", "3");
  ASSERT_TRUE(becomes("a", "3"));
  live_.clear("a");
  EXPECT_TRUE(becomes("a", std::nullopt));
  EXPECT_EQ(live_.conflicts(), 0U);
}

}  // namespace
}  // namespace pvrdma::control
