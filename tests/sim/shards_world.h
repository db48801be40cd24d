// ShardsWorld: VMs on hosts with several shards. Messages between shards of a host go through the real rings,
// and between hosts over lanes. Shards sleep, wake each other and come late; VMs move to other shards of
// their host while their guests go on, and the other hosts hear of it later. Thread: one.
//
// Shards that come late, adapters that stop, VMs that move and lanes that break must not be noticed by a
// guest. Other trouble may end connections: these are told before (Connection::trouble()). How much may
// happen, Peace says.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/sharded_cluster.h"
#include "sim/world.h"
#include "support/machines.h"

namespace pvrdma::sim {

enum class Peace : std::uint8_t {
  kNone,       // everything happens
  kNoTrouble,  // no connection may end, and no QP has a timer: a message or wake-up that is lost stops it
  kNoLoss,  // besides, adapters stay and run, and no lane breaks: no message may be lost, which would cost a
            // repetition
};

struct ShardsOptions {
  std::uint64_t seed = 1;
  std::uint32_t hosts = 1;
  std::uint32_t shards = 2;  // of each host
  std::uint32_t vms = 3;
  std::uint32_t connections = 4;
  HardwareVersion hardware_version = HardwareVersion::k18;
  DoorbellMode doorbells = DoorbellMode::kTrapped;
  Peace peace = Peace::kNone;
  bool hcas = false;  // each shard has an RDMA NIC; needs several hosts, and no kNoLoss
};

// Members that World borrows.
struct ShardsParts {
  explicit ShardsParts(const ShardsOptions& options);

  std::vector<std::uint32_t> shard_of;  // by VM; counted over all hosts
  test::Machines machines;
  ShardedCluster cluster;
};

class ShardsWorld final : private ShardsParts, public World {
 public:
  explicit ShardsWorld(const ShardsOptions& options);
  ~ShardsWorld() override;

  struct ShardsTally {
    std::uint64_t moved = 0;        // to another shard
    std::uint64_t turned_away = 0;  // moves that a shard refused
    std::uint64_t adapters_stopped = 0;
    std::uint64_t loans_stopped = 0;  // times
    std::uint64_t links_down = 0;
    std::uint64_t gids_moved = 0;  // to another shard
    HostShards::Tally rings;
    std::uint64_t lost_on_lanes = 0;  // messages
    std::uint64_t ports_down = 0;     // of NICs
    std::uint64_t pipes_broken = 0;   // times

    ShardsTally& operator+=(const ShardsTally& other);
  };
  ShardsTally shards_tally() const;

 private:
  void pass(Duration time) override;
  void disturb(std::size_t index) override;
  void calm_down() override;
  test::ConnectOptions connect_options() override;
  void replace(std::uint32_t index) override;
  void asked(std::uint32_t index) override { cluster.wake(shard_of[index]); }
  void let_all_run() override;

  std::uint32_t any_shard() { return random_.below(cluster.shards()); }
  std::uint32_t any_shard_of(std::uint32_t host);
  // VMs stay on their hosts.
  std::uint32_t host_of(std::uint32_t index) const { return index % cluster.hosts(); }
  // Until all hosts know of each other, and of all GIDs.
  void come_to_rest();
  void start(std::uint32_t index);
  void change_weather();
  void disturb_lanes();
  void disturb_hcas();
  void fill_rings(std::size_t index, int side);
  void stop_loans(std::size_t index, int side);
  std::optional<std::uint32_t> shard_to_move_to(std::uint32_t index);
  void move(std::uint32_t index, std::uint32_t to);
  void stop_adapter(std::uint32_t index);
  void take_link_down(std::uint32_t index, Duration time);
  void make_trouble(std::size_t index, int side);
  void lose(std::uint32_t index);
  void swap_gids(std::uint32_t a, std::uint32_t b);
  void verify_paths();
  std::optional<std::string> wrong_path();
  void verify_no_loss();

  const Peace peace_;
  std::vector<abi::Gid> gid_of_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Instant> left_at_;  // by VM and shard
  ShardsTally shards_tally_;
};

}  // namespace pvrdma::sim
