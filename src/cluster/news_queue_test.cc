#include "cluster/news_queue.h"

#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <thread>
#include <vector>

namespace pvrdma::cluster {
namespace {

using namespace std::chrono_literals;

constexpr ShardLink kLink{{}, transport::HostId(2)};

GidBinding binding(std::uint32_t number) {
  GidBinding binding{{1, 7}, {}};
  for (std::size_t i = 0; i < 4; ++i) {
    binding.gid.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  }
  return binding;
}

class NewsQueueTest : public testing::Test {
 protected:
  // The current news.
  News take() { return queue_.wait(0s).value(); }
  bool is_quiet() {
    const News news = take();
    return !news.inventory && news.hosts.empty() && news.gids.empty() && news.vms.empty();
  }

  NewsQueue queue_;
};

TEST_F(NewsQueueTest, OnlyTheNewestCounts) {
  for (int i = 0; i < 1000; ++i) {
    queue_.inventory_changed();
    queue_.host_up(kLink, i % 2 == 1);
    queue_.gid_bound(binding(1), {"VM-01", {}});
    queue_.gid_bound(binding(1), {"VM-02", {}});
    queue_.powered("VM-01", i % 2 == 1);
  }
  const News news = take();
  EXPECT_TRUE(news.inventory);
  EXPECT_EQ(news.hosts, (HostNews::Changes{{kLink, std::monostate{}}}));
  EXPECT_EQ(news.gids, (GidNews::Changes{{binding(1), GidPort{"VM-02", {}}}}));
  EXPECT_EQ(news.vms, (PowerNews::Changes{{"VM-01", std::monostate{}}}));
  EXPECT_TRUE(is_quiet()) << "it is told once";
}

TEST_F(NewsQueueTest, TellsWhatIsNoMore) {
  queue_.host_up(kLink, true);
  queue_.gid_bound(binding(1), {"VM-01", {}});
  queue_.powered("VM-01", true);
  take();
  queue_.host_up(kLink, false);
  queue_.gid_unbound(binding(1));
  queue_.powered("VM-01", false);
  const News news = take();
  EXPECT_EQ(news.hosts, (HostNews::Changes{{kLink, std::nullopt}}));
  ASSERT_EQ(news.gids.size(), 1U);
  EXPECT_FALSE(news.gids.at(binding(1)));
  EXPECT_EQ(news.vms, (PowerNews::Changes{{"VM-01", std::nullopt}}));
}

TEST_F(NewsQueueTest, TellsWhereAGidHasMovedTo) {
  const transport::ShardNumber second(1);
  queue_.gid_moved(binding(1), second);
  EXPECT_TRUE(is_quiet()) << "it is not bound";
  queue_.gid_bound(binding(1), {"VM-01", {}});
  take();
  queue_.gid_moved(binding(1), second);
  EXPECT_EQ(take().gids, (GidNews::Changes{{binding(1), GidPort{"VM-01", second, true}}}));
  queue_.gid_moved(binding(1), {});
  queue_.gid_unbound(binding(1));
  EXPECT_FALSE(take().gids.at(binding(1)));
  queue_.gid_moved(binding(1), second);
  EXPECT_TRUE(is_quiet());
}

TEST_F(NewsQueueTest, AGuestThatBindsOneGidAfterTheOtherLeavesNothingBehind) {
  queue_.gid_bound(binding(0), {"VM-01", {}});
  for (std::uint32_t i = 1; i <= 100000; ++i) {
    queue_.gid_bound(binding(i), {"VM-02", {}});
    queue_.gid_unbound(binding(i));
  }
  EXPECT_EQ(take().gids, (GidNews::Changes{{binding(0), GidPort{"VM-01", {}}}}))
      << "nor does it displace another's news";
  EXPECT_TRUE(is_quiet());
}

TEST_F(NewsQueueTest, LosesNothingWhenThereIsMuch) {
  constexpr std::uint32_t kGids = 10 * NewsQueue::kBatch + 1;
  for (std::uint32_t i = 0; i < kGids; ++i) queue_.gid_bound(binding(i), {"VM-01", {}});
  queue_.powered("VM-01", true);
  GidNews::Changes all;
  for (News news = take(); !news.gids.empty(); news = take()) {
    EXPECT_LE(news.gids.size(), NewsQueue::kBatch);
    EXPECT_EQ(news.vms.size(), all.empty() ? 1U : 0U) << "many of one kind hold up no other";
    all.merge(news.gids);
  }
  EXPECT_EQ(all.size(), kGids);
}

TEST_F(NewsQueueTest, TheStoreIsAwayUntilItIsSaidToBeReached) {
  EXPECT_FALSE(take().store_connected);
  queue_.store_connected(true);
  EXPECT_TRUE(take().store_connected);
}

TEST_F(NewsQueueTest, AStoreThatIsReachedAtLastWasNotLost) {
  queue_.store_connected(false);
  queue_.store_connected(true);
  EXPECT_FALSE(take().store_was_lost);
}

TEST_F(NewsQueueTest, AStoreThatIsBackWasLostAllTheSame) {
  queue_.store_connected(true);
  take();
  queue_.store_connected(false);
  queue_.store_connected(true);
  const News news = take();
  EXPECT_TRUE(news.store_connected);
  EXPECT_TRUE(news.store_was_lost);
  EXPECT_FALSE(take().store_was_lost) << "that was before";
  queue_.store_connected(false);
  EXPECT_FALSE(take().store_connected);
}

TEST_F(NewsQueueTest, WakesWhoeverWaits) {
  const std::vector<std::function<void()>> tellers = {[this] { queue_.inventory_changed(); },
                                                      [this] { queue_.store_connected(true); },
                                                      [this] { queue_.host_up(kLink, true); },
                                                      [this] {
                                                        queue_.gid_bound(binding(1), {"VM-01", {}});
                                                      },
                                                      [this] { queue_.powered("VM-01", true); }};
  for (const auto& tell : tellers) {
    std::thread teller(tell);
    EXPECT_TRUE(queue_.wait(1h));
    teller.join();
  }
  std::thread closer([this] { queue_.close(); });
  EXPECT_FALSE(queue_.wait(1h));
  closer.join();
}

TEST_F(NewsQueueTest, WaitsNoLongerThanItIsTold) {
  EXPECT_TRUE(queue_.wait(1ms));
  EXPECT_TRUE(queue_.wait(-1s));
}

TEST_F(NewsQueueTest, IsClosedWhileNewsWait) {
  queue_.inventory_changed();
  queue_.gid_bound(binding(1), {"VM-01", {}});
  queue_.close();
  EXPECT_FALSE(queue_.wait(1h));
}

TEST_F(NewsQueueTest, WhatIsToldAfterTheEndIsIgnored) {
  queue_.close();
  queue_.inventory_changed();
  queue_.store_connected(true);
  queue_.host_up(kLink, true);
  queue_.gid_bound(binding(1), {"VM-01", {}});
  queue_.powered("VM-01", true);
  queue_.close();
  EXPECT_FALSE(queue_.wait(1h));
}

// Several writers and a reader that follows. In the end the reader knows the current state.
TEST_F(NewsQueueTest, AReaderFollowsWhileOthersTell) {
  constexpr std::uint32_t kRounds = 5000;
  const auto flap = [this](std::uint32_t first) {
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      const GidBinding each = binding(first + i % 16);
      queue_.gid_bound(each, {"VM-0" + std::to_string(i % 3), {}});
      if (i % 2 == 0) queue_.gid_unbound(each);
    }
    for (std::uint32_t i = 0; i < 16; ++i) queue_.gid_bound(binding(first + i), {"last", {}});
    queue_.powered(std::to_string(first), true);
  };
  std::thread one([&] { flap(0); });
  std::thread other([&] { flap(100); });
  std::map<GidBinding, GidPort> read;
  std::size_t ended = 0;
  for (bool more = true; more;) {
    const News news = queue_.wait(1h).value();
    for (const auto& [key, port] : news.gids) {
      if (port) {
        read[key] = *port;
      } else {
        read.erase(key);
      }
    }
    ended += news.vms.size();
    more = ended < 2;
  }
  one.join();
  other.join();
  for (const auto& [key, port] : take().gids) read[key] = port.value();
  EXPECT_EQ(read.size(), 32U);
  for (const auto& [key, port] : read) EXPECT_EQ(port.name, "last");
}

}  // namespace
}  // namespace pvrdma::cluster
