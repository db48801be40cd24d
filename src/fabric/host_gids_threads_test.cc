// Three shards bind and unbind the same GIDs, so that buckets are used again and again for other GIDs, and
// each looks up what the others have. A look-up never names a port that did not bind the GID, and no GID has
// two holders.
#include <array>
#include <atomic>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <vector>

#include "fabric/host_gids.h"

namespace pvrdma::fabric {
namespace {

constexpr transport::SegmentId kSegment{.dvs = 7, .vlan = 11};
constexpr std::uint32_t kShards = 3;
constexpr std::uint32_t kGids = HostGids::kSets * HostGids::kWays;
#ifdef __SANITIZE_THREAD__
constexpr std::uint32_t kSteps = 40'000;
#else
constexpr std::uint32_t kSteps = 200'000;
#endif

verbs::Gid gid_number(std::uint32_t number) {
  verbs::Gid made;
  made.bytes[0] = 0xfd;
  made.bytes[13] = static_cast<std::uint8_t>(number >> 16);
  made.bytes[14] = static_cast<std::uint8_t>(number >> 8);
  made.bytes[15] = static_cast<std::uint8_t>(number);
  return made;
}

class Writers {
 public:
  // Each GID belongs to one of a shard's two ports: so an answer about another GID shows.
  void run(std::uint32_t shard) {
    std::mt19937 random(shard + 1);
    std::vector<std::uint32_t> mine;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const std::uint32_t number = random() % kGids;
      look_up(number);
      const auto port = ports_[shard][number % 2];
      const HostGids::Holder holder{transport::ShardNumber(static_cast<std::uint16_t>(shard)), port,
                                    HostGids::Reach::kWorks};
      if (!host_.bind(kSegment, gid_number(number), holder, HostGids::Claim::kFree)) {
        if (holders_[number].exchange(1) != 0) ++wrong;
        mine.push_back(number);
        if (host_.find(kSegment, gid_number(number)) != holder) ++wrong;
      }
      if (mine.size() < kGids / 8) continue;
      const std::uint32_t last = mine.back();
      mine.pop_back();
      holders_[last].store(0);
      host_.unbind(kSegment, gid_number(last), ports_[shard][last % 2]);
    }
  }

  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<std::uint64_t> found = 0;

 private:
  void look_up(std::uint32_t number) {
    const auto holder = host_.find(kSegment, gid_number(number));
    if (!holder) return;
    ++found;
    if (holder->shard.value >= kShards || holder->port != ports_[holder->shard.value][number % 2] ||
        holder->reach != HostGids::Reach::kWorks)
      ++wrong;
  }

  using Ports = std::array<HostGids::PortNumber, 2>;
  Ports two_ports() { return {host_.add_port(kSegment, "even", {}), host_.add_port(kSegment, "odd", {})}; }

  HostGids host_{kShards};
  const std::array<Ports, kShards> ports_{two_ports(), two_ports(), two_ports()};
  std::vector<std::atomic<std::uint8_t>> holders_ = std::vector<std::atomic<std::uint8_t>>(kGids);
};

TEST(HostGidsThreads, SeeEachGidAsItIs) {
  Writers writers;
  std::vector<std::thread> threads;
  for (std::uint32_t shard = 0; shard < kShards; ++shard)
    threads.emplace_back([&writers, shard] { writers.run(shard); });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(writers.wrong, 0U);
  EXPECT_NE(writers.found, 0U);
}

}  // namespace
}  // namespace pvrdma::fabric
