// Two shards, each with a thread and one adapter, for tests of what asks several shards: "VM-1" is on the
// first, "VM-2" on the second.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <gtest/gtest.h>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>

#include "adapters/adapter_set.h"
#include "adapters/kept_record.h"
#include "adapters/shards.h"
#include "base/time.h"
#include "fabric/fabric.h"
#include "fabric/host_gids.h"
#include "shard/loop.h"
#include "transport/local/local.h"
#include "verbs/host_account.h"

namespace pvrdma::adapters::test {

// Refuses to let an adapter join while it has no memory.
class LocalWithoutMemory final : public transport::Local {
 public:
  void join(verbs::Engine& /*engine*/) override {
    if (has_none) throw std::bad_alloc();
  }
  std::atomic<bool> has_none = false;
};

enum class Second : bool { kShard, kWard };

class TwoShards {
 public:
  // All are borrowed. `second`: what the second shard is.
  explicit TwoShards(Keeping* keeping = nullptr, verbs::HostAccount* account = nullptr,
                     PowerObserver* power = nullptr, Second second = Second::kShard)
      : gids_(2, second == Second::kWard ? std::optional(transport::ShardNumber(1)) : std::nullopt),
        sides_{Side(1, gids_, keeping, account, power), Side(2, gids_, keeping, account, power)},
        shards_({{*sides_[0].loop, sides_[0].adapters, sides_[0].fabric},
                 {.loop = *sides_[1].loop,
                  .adapters = sides_[1].adapters,
                  .fabric = sides_[1].fabric,
                  .is_ward = second == Second::kWard}}) {}
  ~TwoShards() {
    for (std::size_t i = 0; i < sides_.size(); ++i) stop(i);
  }
  TwoShards(const TwoShards&) = delete;
  TwoShards& operator=(const TwoShards&) = delete;

  const Shards& shards() const { return shards_; }
  const fabric::HostGids& gids() const { return gids_; }
  shard::Loop& loop(std::size_t shard) { return *sides_.at(shard).loop; }
  std::thread::id thread_of(std::size_t shard) const { return sides_.at(shard).thread.get_id(); }
  // From now on, no adapter can be made on that shard; or it can again.
  void refuse_memory(std::size_t shard, bool refused) { sides_.at(shard).local.has_none = refused; }
  const std::string& socket(std::size_t shard) const { return sides_.at(shard).socket; }
  void stop(std::size_t shard) {
    loop(shard).stop();
    if (sides_.at(shard).thread.joinable()) sides_.at(shard).thread.join();
  }

 private:
  struct Side {
    Side(std::uint8_t number, fabric::HostGids& gids, Keeping* keeping, verbs::HostAccount* account,
         PowerObserver* power)
        : socket(testing::TempDir() + "two_shards_" + std::to_string(::getpid()) + "_" +
                 std::to_string(number)),
          fabric(clock, gids, transport::ShardNumber(static_cast<std::uint16_t>(number - 1))),
          adapters(fabric, *loop, clock, power, Budgets{}, account, nullptr, nullptr, keeping) {
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
    LocalWithoutMemory local;
    std::unique_ptr<shard::Loop> loop = shard::Loop::create({}, clock).value();
    fabric::Fabric fabric;
    AdapterSet adapters;
    std::thread thread;
  };

  fabric::HostGids gids_;
  std::array<Side, 2> sides_;
  const Shards shards_;
};

}  // namespace pvrdma::adapters::test
