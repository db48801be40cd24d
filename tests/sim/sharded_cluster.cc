#include "sim/sharded_cluster.h"

#include <algorithm>
#include <optional>

namespace pvrdma::sim {

ShardedCluster::ShardedCluster(std::uint64_t seed, std::uint32_t hosts, std::uint32_t shards_of_each,
                               bool hcas, const Clock& clock)
    : clock_(clock),
      shards_of_each_(shards_of_each),
      random_(seed + 1),
      lanes_(seed, hosts, shards_of_each),
      directory_(~seed, hosts, HostShards::kSegment, {.hcas = hcas, .shards = shards_of_each}),
      nics_(hcas ? std::make_unique<Nics>(seed, clock) : nullptr) {
  for (std::uint32_t host = 0; host < hosts; ++host) {
    std::optional<HostShards::Outside> outside;
    if (hosts > 1) {
      outside.emplace(HostShards::Outside{lanes_, directory_, host, host * shards_of_each, nics_.get()});
      directory_.started(host, clock.now());
    }
    hosts_.push_back(std::make_unique<HostShards>(seed + host, shards_of_each, clock, outside));
  }
}

void ShardedCluster::set_port(std::uint32_t shard, bool up) {
  nics_->network.set_port(device(shard), up);
  wake(shard);
}

void ShardedCluster::break_pipes(std::uint32_t shard) {
  nics_->network.break_qps(device(shard));
}

void ShardedCluster::want_pipes() {
  for (const auto& host : hosts_) host->want_pipes();
}

void ShardedCluster::run(std::uint32_t shard, std::uint32_t vm, device::Adapter& adapter) {
  of(shard).run(shard % shards_of_each_, vm, adapter);
}

void ShardedCluster::bring_back() {
  for (const auto& host : hosts_) host->bring_back();
}

void ShardedCluster::set_weather(const HostShards::Weather& weather) {
  for (const auto& host : hosts_) host->weather = weather;
}

void ShardedCluster::verify_sleepers() {
  for (const auto& host : hosts_) host->verify_sleepers();
}

HostShards::Tally ShardedCluster::tally() const {
  HostShards::Tally sum;
  for (const auto& host : hosts_) sum += host->tally();
  return sum;
}

bool ShardedCluster::turn() {
  const Instant now = clock_.now();
  for (const auto& [host, view] : directory_.take_due(now)) hosts_[host]->set_view(view);
  lanes_.deliver(now);
  if (nics_ != nullptr) nics_->turn();
  const std::uint32_t first = random_.below(hosts());
  for (std::uint32_t i = 0; i < hosts(); ++i) {
    if (hosts_[(first + i) % hosts()]->turn()) return true;
  }
  return false;
}

Instant ShardedCluster::next_event() const {
  Instant next = std::min(lanes_.next_event(), directory_.next_event());
  if (nics_ != nullptr) next = std::min(next, nics_->next_event());
  for (const auto& host : hosts_) next = std::min(next, host->next_event());
  return next;
}

bool ShardedCluster::at_rest() const {
  if (hosts() == 1) return true;
  if (!directory_.at_rest()) return false;
  for (std::uint32_t host = 0; host < hosts(); ++host) {
    if (!hosts_[host]->has_view(directory_.view_for(host))) return false;
  }
  return true;
}

}  // namespace pvrdma::sim
