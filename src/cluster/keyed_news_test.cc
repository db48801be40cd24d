#include "cluster/keyed_news.h"

#include <gtest/gtest.h>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <string>

namespace pvrdma::cluster {
namespace {

using Names = KeyedNews<int, std::string>;

constexpr std::size_t kAll = 1000;

void follow(std::map<int, std::string>& read, int key, const std::optional<std::string>& value) {
  if (value) {
    read[key] = *value;
  } else {
    read.erase(key);
  }
}

class KeyedNewsTest : public testing::Test {
 protected:
  Names news_;
};

TEST_F(KeyedNewsTest, TellsTheNewestOfEachKey) {
  news_.set(1, "a");
  news_.set(2, "b");
  news_.set(1, "c");
  EXPECT_EQ(news_.take(kAll), (Names::Changes{{1, "c"}, {2, "b"}}));
  EXPECT_TRUE(news_.empty());
  news_.clear(1);
  news_.set(2, "d");
  EXPECT_EQ(news_.take(kAll), (Names::Changes{{1, std::nullopt}, {2, "d"}}));
}

TEST_F(KeyedNewsTest, ChangesWhatIsSet) {
  const auto append = [](std::string& value) { value += "b"; };
  news_.update(1, append);
  EXPECT_TRUE(news_.empty());
  news_.set(1, "a");
  news_.take(kAll);
  news_.update(1, append);
  EXPECT_EQ(news_.take(kAll), (Names::Changes{{1, "ab"}}));
  news_.clear(1);
  news_.update(1, append);
  EXPECT_EQ(news_.take(kAll), (Names::Changes{{1, std::nullopt}}));
}

TEST_F(KeyedNewsTest, WhatIsAsTheReaderKnowsItIsNoNews) {
  news_.set(1, "a");
  news_.clear(1);
  news_.clear(2);
  EXPECT_TRUE(news_.empty());
  news_.set(1, "a");
  news_.take(kAll);
  news_.clear(1);
  news_.set(1, "b");
  news_.set(1, "a");
  EXPECT_TRUE(news_.empty());
}

TEST_F(KeyedNewsTest, HoldsNoMoreThanWhatIsSetAndWhatIsKnown) {
  for (int key = 0; key < 10; ++key) news_.set(key, "known");
  news_.take(kAll);
  for (int key = 0; key < 100000; ++key) {
    news_.set(key, "for a moment");
    news_.clear(key);
  }
  EXPECT_EQ(news_.take(kAll).size(), 10U);
  EXPECT_TRUE(news_.empty());
}

TEST_F(KeyedNewsTest, GivesManyAwayInPieces) {
  for (int key = 0; key < 10; ++key) news_.set(key, "a");
  EXPECT_EQ(news_.take(4).size(), 4U);
  EXPECT_EQ(news_.take(4).size(), 4U);
  EXPECT_FALSE(news_.empty());
  EXPECT_EQ(news_.take(4).size(), 2U);
  EXPECT_TRUE(news_.empty());
}

// A reader that follows the changes always ends with the current values.
TEST_F(KeyedNewsTest, AReaderThatFollowsKnowsWhatIsSet) {
  std::minstd_rand random(1);
  std::map<int, std::string> is;
  std::map<int, std::string> read;
  for (int step = 0; step < 20000; ++step) {
    const int key = static_cast<int>(random() % 8);
    if (random() % 2 == 0) {
      is[key] = std::to_string(random() % 3);
      news_.set(key, is[key]);
    } else {
      is.erase(key);
      news_.clear(key);
    }
    if (random() % 5 != 0) continue;
    for (const auto& [changed, value] : news_.take(random() % 4)) {
      EXPECT_NE(read.contains(changed) ? std::optional(read[changed]) : std::nullopt, value) << "no news";
      follow(read, changed, value);
    }
    if (news_.empty()) {
      ASSERT_EQ(read, is);
    }
  }
  for (const auto& [changed, value] : news_.take(kAll)) {
    follow(read, changed, value);
  }
  EXPECT_EQ(read, is);
}

// A value whose copy needs memory. There is memory only for a given number of copies.
struct Heavy {
  explicit Heavy(int of) : number(of) {}
  Heavy(const Heavy& other) : number(other.number) {
    if (copies_left-- == 0) throw std::bad_alloc();
  }
  Heavy(Heavy&&) = default;
  Heavy& operator=(Heavy&&) = default;
  bool operator==(const Heavy&) const = default;
  int number;
  static inline int copies_left = 0;
};

TEST(KeyedNewsWithoutMemory, TellsLaterWhatItCannotTellNow) {
  KeyedNews<int, Heavy> news;
  for (int key = 1; key <= 3; ++key) news.set(key, Heavy(key));
  std::set<int> told;
  for (int copies = 0; !news.empty(); ++copies) {
    ASSERT_LT(copies, 10);
    Heavy::copies_left = copies;
    for (const auto& [key, value] : news.take(kAll)) {
      EXPECT_EQ(value->number, key);
      EXPECT_TRUE(told.insert(key).second);
    }
  }
  EXPECT_EQ(told.size(), 3U);
  news.set(2, Heavy(2));
  EXPECT_TRUE(news.empty()) << "the reader knows it";
  Heavy::copies_left = 0;
  news.clear(2);
  EXPECT_EQ(news.take(kAll).size(), 1U) << "what is not set any more needs no copy";
}

}  // namespace
}  // namespace pvrdma::cluster
