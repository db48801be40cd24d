// Two shards, each with a thread and one adapter, for tests of what asks several shards: "VM-1" is on the
// first, "VM-2" on the second.
#pragma once

#include <array>
#include <cstddef>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>

#include "adapters/adapter_set.h"
#include "adapters/kept_record.h"
#include "adapters/shards.h"
#include "base/time.h"
#include "fabric/fabric.h"
#include "shard/loop.h"
#include "transport/local/local.h"
#include "verbs/host_account.h"

namespace pvrdma::adapters::test {

class TwoShards {
 public:
  // Both are borrowed.
  explicit TwoShards(Keeping* keeping = nullptr, verbs::HostAccount* account = nullptr)
      : sides_{Side(1, keeping, account), Side(2, keeping, account)} {}
  ~TwoShards() {
    for (std::size_t i = 0; i < sides_.size(); ++i) stop(i);
  }
  TwoShards(const TwoShards&) = delete;
  TwoShards& operator=(const TwoShards&) = delete;

  const Shards& shards() const { return shards_; }
  shard::Loop& loop(std::size_t shard) { return *sides_.at(shard).loop; }
  std::thread::id thread_of(std::size_t shard) const { return sides_.at(shard).thread.get_id(); }
  const std::string& socket(std::size_t shard) const { return sides_.at(shard).socket; }
  void stop(std::size_t shard) {
    loop(shard).stop();
    if (sides_.at(shard).thread.joinable()) sides_.at(shard).thread.join();
  }

 private:
  struct Side {
    Side(std::uint8_t number, Keeping* keeping, verbs::HostAccount* account)
        : socket(testing::TempDir() + "two_shards_" + std::to_string(::getpid()) + "_" +
                 std::to_string(number)),
          adapters(fabric, *loop, clock, nullptr, Budgets{}, account, nullptr, nullptr, keeping) {
      fabric.use(local);
      EXPECT_TRUE(adapters.add_static({"VM-" + std::to_string(number),
                                       socket,
                                       {2, 0, 0, 0, 0, number},
                                       HardwareVersion::k14,
                                       RoceVersion::kV2}));
      EXPECT_TRUE(adapters.start());
      thread = std::thread([this] { loop->run(); });
    }

    const std::string socket;
    SteadyClock clock;
    transport::Local local;
    std::unique_ptr<shard::Loop> loop = shard::Loop::create({}, clock).value();
    fabric::Fabric fabric{clock};
    AdapterSet adapters;
    std::thread thread;
  };

  std::array<Side, 2> sides_;
  const Shards shards_{{{*sides_[0].loop, sides_[0].adapters, sides_[0].fabric},
                        {*sides_[1].loop, sides_[1].adapters, sides_[1].fabric}}};
};

}  // namespace pvrdma::adapters::test
