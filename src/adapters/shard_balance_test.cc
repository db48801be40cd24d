#include "adapters/shard_balance.h"

#include <gtest/gtest.h>
#include <map>

namespace pvrdma::adapters {
namespace {

using std::chrono::seconds;

constexpr Instant kNow{std::chrono::hours(1)};

// The moves as text, "a:0>1", in their order.
std::vector<std::string> texts(const std::vector<Relief>& reliefs) {
  std::vector<std::string> all;
  for (const Relief& each : reliefs)
    all.push_back(each.adapter + ":" + std::to_string(each.from) + ">" + std::to_string(each.to));
  return all;
}

std::vector<std::string> moves(const std::vector<ShardLoad>& loads) {
  return texts(ShardBalance().reliefs(loads, kNow));
}

using Moves = std::vector<std::string>;

TEST(ShardBalance, MovesFromABusyShardToOneWithLittleToDo) {
  EXPECT_EQ(moves({{0.95, {{"a", 0.2}}}, {0.1, {{"b", 0.1}}}}), Moves{"a:0>1"});
  EXPECT_EQ(moves({{0.1, {{"b", 0.1}}}, {0.95, {{"a", 0.2}}}}), Moves{"a:1>0"});
}

TEST(ShardBalance, NoShardIsBusyEnough) {
  EXPECT_EQ(moves({{0.80, {{"a", 0.2}}}, {0.1, {}}}), Moves{});
  EXPECT_EQ(moves({{0.81, {{"a", 0.2}}}, {0.1, {}}}), Moves{"a:0>1"});
}

TEST(ShardBalance, NoShardHasLittleToDo) {
  EXPECT_EQ(moves({{0.95, {{"a", 0.2}}}, {0.40, {}}}), Moves{});
  EXPECT_EQ(moves({{0.95, {{"a", 0.2}}}, {0.39, {}}}), Moves{"a:0>1"});
}

TEST(ShardBalance, NothingIsKnown) {
  EXPECT_EQ(moves({}), Moves{});
}

TEST(ShardBalance, AnAdapterWithHalfOfTheDifferenceStays) {
  EXPECT_EQ(moves({{1, {{"a", 0.5}, {"b", 0.5}}}, {0, {}}}), Moves{}) << "a pair would be torn apart";
  EXPECT_EQ(moves({{1, {{"a", 0.4}, {"b", 0.6}}}, {0.25, {}}}), Moves{});
  EXPECT_EQ(moves({{1, {{"a", 0.37}, {"b", 0.63}}}, {0.25, {}}}), Moves{"a:0>1"});
}

TEST(ShardBalance, AnAdapterThatDoesLittleStays) {
  EXPECT_EQ(moves({{0.9, {{"a", 0.049}, {"b", 0.05}}}, {0, {}}}), Moves{"b:0>1"});
}

TEST(ShardBalance, TheLargestShareThatFitsIsFirst) {
  EXPECT_EQ(moves({{0.9, {{"a", 0.1}, {"b", 0.5}, {"c", 0.3}}}, {0, {}}}), (Moves{"c:0>1", "a:0>1"}));
}

TEST(ShardBalance, TheShardWithLessToDoIsFirst) {
  EXPECT_EQ(moves({{0.3, {}}, {0.9, {{"a", 0.1}}}, {0.1, {}}, {0.7, {}}}), (Moves{"a:1>2", "a:1>0"}));
}

TEST(ShardBalance, EachBusyShardGives) {
  EXPECT_EQ(moves({{0.9, {{"a", 0.9}}}, {0.85, {{"b", 0.2}}}, {0.1, {}}}), Moves{"b:1>2"});
}

TEST(ShardBalance, AnAdapterThatMovedStaysForAWhile) {
  const std::vector<ShardLoad> loads{{0.95, {{"a", 0.3}, {"b", 0.2}}}, {0, {}}};
  ShardBalance balance;
  EXPECT_EQ(texts(balance.reliefs(loads, kNow)), (Moves{"a:0>1", "b:0>1"}));
  balance.note_moved("a", kNow);
  const Instant last = kNow + (ShardBalance::kStay - seconds(1));
  for (Instant now = kNow; now <= last; now = now + seconds(1))
    EXPECT_EQ(texts(balance.reliefs(loads, now)), Moves{"b:0>1"});
  EXPECT_EQ(texts(balance.reliefs(loads, last + seconds(1))), (Moves{"a:0>1", "b:0>1"}));
}

// What a move leads to, on paper: the loads afterwards ask for no other one.
TEST(ShardBalance, AMoveAsksForNoMoveBack) {
  const auto unmovable = [](double busy, double share) { return ShardLoad{busy, {{"a", share}}}; };
  for (double from = 0.81; from <= 1; from += 0.01) {
    for (double to = 0; to < 0.4; to += 0.01) {
      for (double share = ShardBalance::kLeastShare; share < 1; share += 0.01) {
        if (moves({unmovable(from, share), {to, {}}}).empty()) continue;
        ASSERT_EQ(moves({{from - share, {}}, unmovable(to + share, share)}), Moves{})
            << from << " " << to << " " << share;
      }
    }
  }
}

TEST(ShardBalance, AnAdapterGoesToItsPeersFirst) {
  std::vector<Relief> reliefs = ShardBalance().reliefs(
      {{0.95, {{"large", 0.4}, {"near", 0.2}, {"far", 0.1}, {"mute", 0.05}}}, {0, {}}}, kNow);
  std::map<std::string, std::vector<std::uint64_t>> exchanged{
      {"large", {50, 50}}, {"near", {900, 100}}, {"far", {10, 11}}, {"mute", {}}};
  std::vector<std::string> asked;
  prefer_peers(reliefs, [&](const std::string& adapter) {
    asked.push_back(adapter);
    return exchanged.at(adapter);
  });
  EXPECT_EQ(texts(reliefs), (Moves{"far:0>1", "large:0>1", "near:0>1", "mute:0>1"}));
  EXPECT_TRUE(reliefs[0].joins_peers);
  EXPECT_FALSE(reliefs[1].joins_peers) << "half is not most";
  EXPECT_EQ(asked, (std::vector<std::string>{"large", "near", "far", "mute"}));
}

TEST(ShardBalance, ThePeersShardIsOneOfSeveral) {
  std::vector<Relief> reliefs = ShardBalance().reliefs({{0.95, {{"a", 0.2}}}, {0, {}}, {0.3, {}}}, kNow);
  int asked = 0;
  prefer_peers(reliefs, [&](const std::string&) {
    ++asked;
    return std::vector<std::uint64_t>{1, 2, 4};
  });
  EXPECT_EQ(texts(reliefs), (Moves{"a:0>2", "a:0>1"}));
  EXPECT_EQ(asked, 1);
}

TEST(ShardBalance, SaysWhy) {
  const Relief relief{"a", 0, 1, 0.24, 0.974, 0.02};
  EXPECT_EQ(reason_of(relief), "shard 0 was 97 % busy, 24 % with this adapter, and shard 1 was 2 % busy");
  Relief to_peers = relief;
  to_peers.joins_peers = true;
  EXPECT_EQ(reason_of(to_peers),
            reason_of(relief) + "; most of its traffic on this host is with adapters there");
}

}  // namespace
}  // namespace pvrdma::adapters
