// What every kind of store does.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "control/store/etcd_testbed.h"
#include "control/store/store.h"
#include "control/store/store_testing.h"
#include "support/must.h"

namespace pvrdma::control::test {
namespace {

using pvrdma::test::code_of;
using pvrdma::test::must;
using testing::ElementsAre;
using testing::HasSubstr;

enum class Kind { kSqlite, kEtcd };

class StoreTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kEtcd) etcd_.emplace();
  }

  // A test opens its stores one after another, over the same records.
  std::unique_ptr<Store> make() {
    if (GetParam() == Kind::kSqlite) return make_sqlite_store({.path = folder_.file("store.db")});
    EtcdConfig config;
    config.endpoints = {etcd_->url()};
    return make_etcd_store(config);
  }

  std::unique_ptr<Store> open(Recorder& recorder) {
    auto store = make();
    must(store->start(recorder));
    EXPECT_TRUE(recorder.wait_connected());
    return store;
  }

  TempFolder folder_;
  std::optional<EtcdServer> etcd_;
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreTest, testing::Values(Kind::kSqlite, Kind::kEtcd),
                         [](const auto& kind) { return kind.param == Kind::kSqlite ? "Sqlite" : "Etcd"; });

TEST_P(StoreTest, CommitsChangesReadsThemAndTellsThemAsOneTransaction) {
  Recorder recorder;
  const auto store = open(recorder);
  ASSERT_EQ(recorder.told().alls.size(), 1U);
  EXPECT_TRUE(recorder.told().alls[0].empty());

  const std::string binary("\0\xff\n\"", 4);
  const Change odd{"b" + binary, binary, false};
  EXPECT_EQ(must(store->commit({{}, {put("a", "1"), odd, put("empty", "")}})), Commit::kCommitted);
  ASSERT_TRUE(recorder.wait([](const auto& told) { return told.changes.size() == 1; }));
  EXPECT_THAT(recorder.told().changes[0], ElementsAre(put("a", "1"), odd, put("empty", "")));
  EXPECT_THAT(must(store->read_all()),
              ElementsAre(KeyValue{"a", "1"}, KeyValue{odd.key, binary}, KeyValue{"empty", ""}));

  // Deleting an absent record reports nothing. A rewrite and a deletion are reported.
  EXPECT_EQ(must(store->commit({{}, {erase("nothing")}})), Commit::kCommitted);
  EXPECT_EQ(must(store->commit({{}, {erase("a"), erase("nothing"), put_leased("empty", "full")}})),
            Commit::kCommitted);
  ASSERT_TRUE(recorder.wait([](const auto& told) { return told.changes.size() == 2; }));
  EXPECT_THAT(recorder.told().changes[1], ElementsAre(erase("a"), put_leased("empty", "full")));
  EXPECT_THAT(must(store->read_all()), ElementsAre(KeyValue{odd.key, binary}, KeyValue{"empty", "full"}));
  EXPECT_EQ(recorder.told().alls.size(), 1U);
}

TEST_P(StoreTest, ChangesNothingWhenAnExpectationDoesNotHold) {
  Recorder recorder;
  const auto store = open(recorder);
  EXPECT_EQ(must(store->commit({{{"a", std::nullopt}}, {put("a", "1"), put("b", "1")}})), Commit::kCommitted);
  const std::vector<std::vector<Expectation>> wrong = {
      {{"a", std::nullopt}},     // exists
      {{"a", "2"}},              // has another value
      {{"c", "1"}},              // does not exist
      {{"c", ""}},               // absent is not the same as empty
      {{"a", "1"}, {"b", "2"}},  // only one of two holds
  };
  for (const auto& expects : wrong) {
    EXPECT_EQ(must(store->commit({expects, {put("a", "x"), erase("b"), put("c", "x")}})), Commit::kConflict);
  }
  EXPECT_THAT(must(store->read_all()), ElementsAre(KeyValue{"a", "1"}, KeyValue{"b", "1"}));
  EXPECT_EQ(must(store->commit({{{"a", "1"}, {"b", "1"}, {"c", std::nullopt}}, {put("a", "2"), erase("b")}})),
            Commit::kCommitted);
  EXPECT_THAT(must(store->read_all()), ElementsAre(KeyValue{"a", "2"}));
  EXPECT_EQ(must(store->commit({{{"a", "2"}}, {}})), Commit::kCommitted);
  EXPECT_EQ(must(store->commit({{{"a", "3"}}, {}})), Commit::kConflict);
  ASSERT_TRUE(recorder.wait([](const auto& told) { return told.changes.size() == 2; }));
}

TEST_P(StoreTest, KeepsRecordsOverAReopenAndGivesLeasedOnesBack) {
  {
    Recorder recorder;
    const auto store = open(recorder);
    EXPECT_EQ(must(store->commit({{}, {put("kept", "1"), put_leased("live", "2"), put_leased("both", "3")}})),
              Commit::kCommitted);
    EXPECT_EQ(must(store->commit({{}, {put("both", "4")}})), Commit::kCommitted);  // no longer leased
    store->stop(LeasedRecords::kGiveBack);
    const std::size_t calls = recorder.told().changes.size();
    EXPECT_EQ(code_of(store->commit({{}, {put("late", "5")}})), ENOTCONN);
    EXPECT_EQ(code_of(store->read_all()), ENOTCONN);
    EXPECT_EQ(recorder.told().changes.size(), calls);
  }
  Recorder recorder;
  const auto store = open(recorder);
  EXPECT_THAT(recorder.told().alls.at(0), ElementsAre(KeyValue{"both", "4"}, KeyValue{"kept", "1"}));
  EXPECT_THAT(must(store->read_all()), ElementsAre(KeyValue{"both", "4"}, KeyValue{"kept", "1"}));
}

TEST_P(StoreTest, CarriesOutABigTransactionAsOne) {
  Recorder recorder;
  const auto store = open(recorder);
  Transaction transaction;
  for (int i = 0; i < 2500; ++i)
    transaction.changes.push_back(put(fmt::format("{:05}", i), std::to_string(i)));
  EXPECT_EQ(must(store->commit(transaction)), Commit::kCommitted);
  ASSERT_TRUE(recorder.wait([](const auto& told) { return told.changes.size() == 1; }));
  EXPECT_EQ(recorder.told().changes[0], transaction.changes);
  const auto records = must(store->read_all());
  ASSERT_EQ(records.size(), 2500U);
  for (std::size_t i = 0; i < records.size(); ++i) {
    ASSERT_EQ(records[i], (KeyValue{transaction.changes[i].key, *transaction.changes[i].value}));
  }
  transaction.expects.push_back({"00000", "another"});
  transaction.changes = {erase("00001")};
  for (int i = 0; i < 200; ++i) transaction.changes.push_back(put(fmt::format("{:05}", i), "new"));
  EXPECT_EQ(must(store->commit(transaction)), Commit::kConflict);
  EXPECT_EQ(must(store->read_all()), records);
}

TEST_P(StoreTest, LosesNoUpdateOfConcurrentEditors) {
  Recorder recorder;
  const auto store = open(recorder);
  must(store->commit({{}, {put("counter", "0")}}));
  constexpr int kEditors = 4;
  constexpr int kEach = 10;
  std::vector<std::thread> editors;
  for (int editor = 0; editor < kEditors; ++editor) {
    editors.emplace_back([&] {
      for (int made = 0; made < kEach;) {
        const std::string now = must(store->read_all()).at(0).value;
        const auto done =
            must(store->commit({{{"counter", now}}, {put("counter", std::to_string(std::stoi(now) + 1))}}));
        if (done == Commit::kCommitted) ++made;
      }
    });
  }
  for (std::thread& editor : editors) editor.join();
  ASSERT_TRUE(recorder.wait([](const auto& told) { return told.changes.size() == 1 + kEditors * kEach; }));
  const auto changes = recorder.told().changes;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EXPECT_THAT(changes[i], ElementsAre(put("counter", std::to_string(i))));  // in the order of the store
  }
}

TEST_P(StoreTest, LetsTheObserverReadAndCommit) {
  Recorder recorder;
  const auto store = make();
  recorder.then([&](const std::vector<Change>& changes) {
    if (changes.at(0).key != "ask") return;
    EXPECT_EQ(must(store->read_all()).size(), 1U);
    EXPECT_EQ(must(store->commit({{}, {put("answer", "1")}})), Commit::kCommitted);
  });
  must(store->start(recorder));
  ASSERT_TRUE(recorder.wait_connected());
  must(store->commit({{}, {put("ask", "1")}}));
  ASSERT_TRUE(recorder.wait([](const auto& told) { return told.has("answer"); }));
  EXPECT_EQ(recorder.told().changes.size(), 2U);
  store->stop(LeasedRecords::kGiveBack);
}

}  // namespace
}  // namespace pvrdma::control::test
