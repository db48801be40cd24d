// A shard with one adapter, for tests of the questions that other threads ask it. The shard's thread runs
// from start() to stop(). A test can ask before start(), too.
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

#include "adapters/adapter_set.h"
#include "adapters/shards.h"
#include "base/reaper.h"
#include "base/time.h"
#include "fabric/fabric.h"
#include "shard/loop.h"
#include "transport/local/local.h"

namespace pvrdma::adapters::test {

class ShardFixture : public testing::Test {
 protected:
  // `on_shard` runs first on the shard's thread.
  explicit ShardFixture(std::function<void()> on_shard = [] {}) : on_shard_(std::move(on_shard)) {}
  void SetUp() override {
    fabric_.use(local_);
    ASSERT_TRUE(adapters_->add_static(
        {kName, socket_, {0x52, 0x54, 0, 0x12, 0x34, 0x51}, HardwareVersion::k14, RoceVersion::kV2}));
    ASSERT_TRUE(adapters_->start());
  }
  void TearDown() override {
    stop();
    adapters_.reset();
  }
  void start() {
    shard_ = std::thread([this] {
      on_shard_();
      loop_->run();
    });
  }
  void stop() {
    loop_->stop();
    if (shard_.joinable()) shard_.join();
  }

  static constexpr const char* kName = "a-virtual-machine-whose-name-takes-memory";
  const std::function<void()> on_shard_;
  const std::string socket_ = testing::TempDir() + "shard_test_" + std::to_string(::getpid()) + ".sock";
  SteadyClock clock_;
  std::unique_ptr<Reaper> reaper_ = Reaper::create().value();
  transport::Local local_;
  std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
  fabric::Fabric fabric_{clock_};
  std::unique_ptr<AdapterSet> adapters_ = std::make_unique<AdapterSet>(fabric_, *loop_, clock_);
  const Shards shards_{{{*loop_, *adapters_, fabric_}}};
  std::thread shard_;
};

}  // namespace pvrdma::adapters::test
