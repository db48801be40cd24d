// ShardedCluster: hosts with several shards each, the lanes between shards of different hosts, and the
// directory from which the hosts learn of each other. A single host has neither lanes nor directory.
//
// Shards are counted over all hosts here. Thread: the world's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/directory.h"
#include "sim/host_shards.h"
#include "sim/lane_network.h"
#include "sim/random.h"
#include "sim/shard_hca.h"

namespace pvrdma::sim {

class ShardedCluster {
 public:
  // `clock` is borrowed. With `hcas`, which needs several hosts, each shard has an RDMA NIC.
  ShardedCluster(std::uint64_t seed, std::uint32_t hosts, std::uint32_t shards_of_each, bool hcas,
                 const Clock& clock);

  std::uint32_t hosts() const { return static_cast<std::uint32_t>(hosts_.size()); }
  std::uint32_t shards_of_each() const { return shards_of_each_; }
  std::uint32_t shards() const { return hosts() * shards_of_each_; }
  std::uint32_t host_of(std::uint32_t shard) const { return shard / shards_of_each_; }
  LaneNetwork& lanes() { return lanes_; }
  const LaneNetwork& lanes() const { return lanes_; }

  bool has_hcas() const { return nics_ != nullptr; }
  // The port of the shard's NIC goes down or up.
  void set_port(std::uint32_t shard, bool up);
  // All QPs of the shard's NIC fail, as if a peer did not answer.
  void break_pipes(std::uint32_t shard);
  // Each shard connects to each shard of other hosts by HCA.
  void want_pipes();
  std::uint64_t crimes() const { return nics_ != nullptr ? nics_->network.crimes() : 0; }

  // As HostShards has them, for one shard.
  fabric::Switch& segment(std::uint32_t shard) { return of(shard).segment(shard % shards_of_each_); }
  void run(std::uint32_t shard, std::uint32_t vm, device::Adapter& adapter);
  void end(std::uint32_t shard, std::uint32_t vm) { of(shard).end(shard % shards_of_each_, vm); }
  void wake(std::uint32_t shard) { of(shard).wake(shard % shards_of_each_); }
  void hold(std::uint32_t shard, Duration time) { of(shard).hold(shard % shards_of_each_, time); }

  // As HostShards has them, for all hosts.
  void bring_back();
  HostShards::Weather weather() const { return hosts_.front()->weather; }
  void set_weather(const HostShards::Weather& weather);
  void verify_sleepers();
  HostShards::Tally tally() const;

  // Delivers the messages and views that are due, and turns one of the shards that have something to do. On
  // an empty stack. False: all sleep or are away.
  bool turn();
  Instant next_event() const;
  // Every shard has the newest view and all its lanes.
  bool at_rest() const;

 private:
  static std::string device(std::uint32_t shard) { return "rdma" + std::to_string(shard); }
  HostShards& of(std::uint32_t shard) { return *hosts_[host_of(shard)]; }

  const Clock& clock_;
  const std::uint32_t shards_of_each_;
  Random random_;
  LaneNetwork lanes_;
  Directory directory_;
  std::unique_ptr<Nics> nics_;  // null: no HCAs
  std::vector<std::unique_ptr<HostShards>> hosts_;
};

}  // namespace pvrdma::sim
