#include "cluster/view_slot.h"

#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shard/ask.h"

namespace pvrdma::cluster {
namespace {

ShardView view_of(const std::string& peer) {
  ShardView view;
  view.fabric.hosts.push_back({transport::HostId{1}, peer, fabric::PathKind::kTcp, ""});
  return view;
}

class ViewSlotTest : public testing::Test {
 protected:
  void TearDown() override { stop(); }
  void make(std::size_t mailbox_tasks) {
    loop_ = shard::Loop::create({.mailbox_tasks = mailbox_tasks}, clock_).value();
    slot_ = std::make_unique<ViewSlot>(*loop_, [this](const ShardView& view) {
      if (std::exchange(no_memory_, false)) throw std::bad_alloc();
      taken_.push_back(view.fabric.hosts.at(0).name);
    });
  }
  void start() {
    shard_ = std::thread([this] { loop_->run(); });
  }
  // Tasks posted before are run.
  void stop() {
    loop_->stop();
    if (shard_.joinable()) shard_.join();
  }

  SteadyClock clock_;
  std::unique_ptr<shard::Loop> loop_;
  std::unique_ptr<ViewSlot> slot_;
  bool no_memory_ = false;  // the shard has no memory, once
  std::vector<std::string> taken_;
  std::thread shard_;
};

TEST_F(ViewSlotTest, TheShardTakesTheNewestOnly) {
  make(16);
  for (const char* peer : {"esx-01", "esx-02", "esx-03"}) slot_->put(view_of(peer));
  start();
  stop();
  EXPECT_EQ(taken_, std::vector<std::string>{"esx-03"});
}

TEST_F(ViewSlotTest, ANewViewFollowsOneThatWasTaken) {
  make(16);
  start();
  slot_->put(view_of("esx-01"));
  const auto count = shard::ask(*loop_, std::chrono::minutes(1), [this] { return taken_.size(); });
  EXPECT_EQ(count.value(), 1U);
  slot_->put(view_of("esx-02"));
  stop();
  EXPECT_EQ(taken_, (std::vector<std::string>{"esx-01", "esx-02"}));
}

TEST_F(ViewSlotTest, TriesAgainWhenTheMailboxWasFull) {
  make(1);
  std::promise<void> has_room;
  ASSERT_TRUE(loop_->post([&has_room] { has_room.set_value(); }));
  slot_->put(view_of("esx-01"));
  slot_->put(view_of("esx-02"));
  slot_->retry();
  start();
  has_room.get_future().wait();
  slot_->retry();
  slot_->retry();
  stop();
  EXPECT_EQ(taken_, std::vector<std::string>{"esx-02"});
}

TEST_F(ViewSlotTest, AViewThatNobodyTakesEndsWithTheSlot) {
  make(16);
  start();
  stop();
  slot_->put(view_of("esx-01"));
  slot_->retry();
  slot_.reset();
  EXPECT_TRUE(taken_.empty());
}

TEST_F(ViewSlotTest, TheLastViewArrivesWhileTheShardTakes) {
  make(4);
  constexpr int kLast = 20000;
  std::string last;
  ViewSlot slot(*loop_, [&](const ShardView& view) {
    last = view.fabric.hosts.at(0).name;
    if (last == std::to_string(kLast)) loop_->stop();
  });
  start();
  for (int i = 1; i <= kLast; ++i) slot.put(view_of(std::to_string(i)));
  shard_.join();
  EXPECT_EQ(last, std::to_string(kLast));
}

TEST_F(ViewSlotTest, AViewThatTheShardHasNoMemoryForIsTakenLater) {
  make(16);
  no_memory_ = true;
  slot_->put(view_of("esx-01"));
  start();
  ASSERT_TRUE(shard::ask(*loop_, std::chrono::minutes(1), [] { return 0; }));
  slot_->retry();
  stop();
  EXPECT_EQ(taken_, std::vector<std::string>{"esx-01"});
}

}  // namespace
}  // namespace pvrdma::cluster
