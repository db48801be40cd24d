#include "adapters/shard_load.h"

#include <algorithm>

namespace pvrdma::adapters {
namespace {

std::uint64_t work_in(const verbs::Counters& counters) {
  return (counters.tx_messages + counters.rx_messages) * kBytesPerMessage + counters.tx_bytes +
         counters.rx_bytes + counters.read_bytes_served;
}

std::uint64_t work_between(const ShardSample& before, const ShardSample::Adapter& adapter) {
  const auto known = std::ranges::find(before.adapters, adapter.name, &ShardSample::Adapter::name);
  if (known == before.adapters.end()) return 0;
  const std::uint64_t done = work_in(known->counters);
  return std::max(work_in(adapter.counters), done) - done;
}

}  // namespace

ShardLoad load_between(const ShardSample& before, const ShardSample& after) {
  ShardLoad load;
  const Duration time = after.at - before.at;
  if (time > Duration{0}) {
    const double asleep =
        static_cast<double>((after.asleep - before.asleep).count()) / static_cast<double>(time.count());
    load.busy = std::clamp(1 - asleep, 0.0, 1.0);
  }
  std::vector<std::uint64_t> works;
  std::uint64_t sum = 0;
  for (const ShardSample::Adapter& adapter : after.adapters) {
    works.push_back(work_between(before, adapter));
    sum += works.back();
  }
  for (std::size_t i = 0; i < works.size(); ++i) {
    const double part = sum == 0 ? 0 : static_cast<double>(works[i]) / static_cast<double>(sum);
    load.adapters.push_back({after.adapters[i].name, load.busy * part});
  }
  return load;
}

}  // namespace pvrdma::adapters
