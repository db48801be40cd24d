#include "adapters/shard_balancer.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "adapters/peer_shards.h"
#include "base/control_thread.h"
#include "base/log.h"

namespace pvrdma::adapters {
namespace {

ShardSample look_at(const Shard& shard, const Clock& clock) {
  ShardSample sample{.at = clock.now(),
                     .asleep = std::chrono::microseconds(shard.loop.counters().asleep_us),
                     .adapters = {}};
  for (const auto& adapter : shard.adapters.adapters())
    sample.adapters.push_back({adapter->port().name(), adapter->engine().counters()});
  return sample;
}

}  // namespace

void ShardBalancer::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void ShardBalancer::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void ShardBalancer::run(const std::stop_token& stop) {
  begin_control_thread("balancer");
  std::unique_lock lock(mutex_);
  do balance(measure());
  while (!wake_.wait_for(lock, stop, period_, [&stop] { return stop.stop_requested(); }));
}

std::vector<ShardLoad> ShardBalancer::measure() {
  auto answers = shards_.ask_all_but_ward(
      [this](std::size_t shard) { return look_at(shards_[shard], clock_); }, "its load");
  std::vector<ShardSample> seen;
  for (auto& answer : answers) {
    if (answer) {
      seen.push_back(*std::move(answer));
      continue;
    }
    log::debug("the load of the shards is unknown: {}", answer.error().message);
    last_.clear();
    return {};
  }
  std::vector<ShardLoad> loads;
  for (std::size_t i = 0; i < last_.size(); ++i) loads.push_back(load_between(last_[i], seen[i]));
  last_ = std::move(seen);
  return loads;
}

void ShardBalancer::balance(const std::vector<ShardLoad>& loads) {
  std::vector<Relief> reliefs = balance_.reliefs(loads, clock_.now());
  prefer_peers(reliefs, [this](const std::string& adapter) { return find_exchange(adapter); });
  for (const Relief& each : reliefs) {
    const auto placed = placement_.relieve(each);
    if (placed) {
      balance_.note_moved(each.adapter, clock_.now());
      return;
    }
    if (placed.error().kind != ErrorKind::kConflict) return;
  }
}

std::vector<std::uint64_t> ShardBalancer::find_exchange(const std::string& adapter) const {
  std::vector<std::uint64_t> sum(shards_.count());
  for (std::optional<std::uint32_t> next = 0; next;) {
    const auto page = shards_.on(
        adapter,
        [first = *next, shards = shards_.count()](const ServedAdapter& served) -> Result<Exchange> {
          return exchange_of(served, first, shards);
        },
        "an adapter's peers");
    if (!page) return {};
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += page->bytes[i];
    next = page->next;
  }
  return sum;
}

}  // namespace pvrdma::adapters
