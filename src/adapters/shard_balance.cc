#include "adapters/shard_balance.h"

#include <algorithm>
#include <fmt/core.h>
#include <numeric>

namespace pvrdma::adapters {
namespace {

bool is_most(const std::vector<std::uint64_t>& exchanged, std::uint32_t shard) {
  if (shard >= exchanged.size()) return false;
  const std::uint64_t sum = std::accumulate(exchanged.begin(), exchanged.end(), std::uint64_t{0});
  return exchanged[shard] > sum - exchanged[shard];
}

double percent(double part) {
  return part * 100;
}

}  // namespace

std::string reason_of(const Relief& relief) {
  return fmt::format(
      "shard {} was {:.0f} % busy, {:.0f} % with this adapter, and shard {} was {:.0f} % busy{}", relief.from,
      percent(relief.from_busy), percent(relief.share), relief.to, percent(relief.to_busy),
      relief.joins_peers ? "; most of its traffic on this host is with adapters there" : "");
}

std::vector<Relief> ShardBalance::reliefs(const std::vector<ShardLoad>& loads, Instant now) {
  std::erase_if(moved_, [now](const auto& each) { return now - each.second >= kStay; });
  std::vector<Relief> found;
  for (std::uint32_t from = 0; from < loads.size(); ++from) {
    if (loads[from].busy <= kBusy) continue;
    for (std::uint32_t to = 0; to < loads.size(); ++to) {
      if (loads[to].busy >= kIdle) continue;
      const double half = (loads[from].busy - loads[to].busy) / 2;
      for (const AdapterLoad& adapter : loads[from].adapters) {
        if (adapter.share < kLeastShare || adapter.share >= half || moved_.contains(adapter.name)) continue;
        found.push_back({adapter.name, from, to, adapter.share, loads[from].busy, loads[to].busy});
      }
    }
  }
  std::ranges::stable_sort(found, [](const Relief& a, const Relief& b) {
    return a.share != b.share ? a.share > b.share : a.to_busy < b.to_busy;
  });
  return found;
}

void prefer_peers(std::vector<Relief>& reliefs, const FindExchange& find_exchange) {
  std::map<std::string, std::vector<std::uint64_t>> exchanged;
  for (Relief& each : reliefs) {
    auto known = exchanged.find(each.adapter);
    if (known == exchanged.end()) known = exchanged.emplace(each.adapter, find_exchange(each.adapter)).first;
    each.joins_peers = is_most(known->second, each.to);
  }
  std::stable_partition(reliefs.begin(), reliefs.end(), [](const Relief& each) { return each.joins_peers; });
}

}  // namespace pvrdma::adapters
