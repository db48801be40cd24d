#include "adapters/shard_faults.h"

#include <algorithm>
#include <fmt/core.h>

#include "adapters/adapter_fault.h"
#include "base/events.h"
#include "base/no_such.h"

namespace pvrdma::adapters {

Result<FaultState> ShardFaults::add(const FaultWish& wish) {
  if (injection_ == Injection::kRefused) {
    return fail(
        ErrorKind::kConflict,
        "this daemon injects no faults: start it with --fault-injection, or set fault_injection = true in "
        "[daemon]");
  }
  FaultWish seeded = wish;
  if (!seeded.seed) seeded.seed = static_cast<std::uint32_t>(Instant::now().since_start.count());
  const auto shard = shards_.of(wish.adapter);
  if (!shard) return Failure(shard.error());
  fabric::Fabric& fabric = (*shard)->fabric;
  auto fault = AdapterFault::create(
      made_.fetch_add(1) + 1, seeded,
      {.transports = fabric.transports(), .inbound = fabric, .roce = (*shard)->roce, .clock = clock_},
      reaper_.open_queue());
  struct Added {
    std::uint64_t other = 0;  // the fault that the adapter has already
    FaultState state;
  };
  const auto added = (*shard)->on(
      wish.adapter,
      [fault = std::move(fault)](ServedAdapter& served) -> Result<Added> {
        Added done{0, fault->state()};
        if (!served.inject(fault)) done.other = served.fault()->id();
        return done;
      },
      "adding a fault");
  if (!added) return Failure(added.error());
  if (added->other != 0) {
    return fail(ErrorKind::kConflict,
                fmt::format("adapter {} has fault {} already: remove it first", wish.adapter, added->other));
  }
  events::tell(log::Level::kWarn, fault_of(wish.adapter),
               "adapter {}: fault {} is injected into the messages that it sends, seed {}", wish.adapter,
               added->state.id, *seeded.seed);
  return added->state;
}

Result<std::vector<FaultState>> ShardFaults::list() {
  const auto listed = shards_.ask_all(
      [&shards = shards_](std::size_t shard) {
        std::vector<FaultState> all;
        for (const auto& each : shards[shard].adapters.adapters()) {
          if (each->fault() != nullptr) all.push_back(each->fault()->state());
        }
        return all;
      },
      "listing the faults");
  std::vector<FaultState> all;
  for (const auto& of_shard : listed) {
    if (!of_shard) return Failure(of_shard.error());
    all.insert(all.end(), of_shard->begin(), of_shard->end());
  }
  std::ranges::sort(all, {}, &FaultState::id);
  return all;
}

Result<void> ShardFaults::remove(std::optional<std::uint64_t> id) {
  struct Removed {
    std::string adapter;
    std::uint64_t fault = 0;
  };
  const auto removed = shards_.ask_all(
      [&shards = shards_, id](std::size_t shard) {
        std::vector<Removed> all;
        for (const auto& each : shards[shard].adapters.adapters()) {
          if (each->fault() == nullptr || (id && each->fault()->id() != *id)) continue;
          all.push_back({each->port().name(), each->fault()->id()});
          each->fault()->deliver_all(Instant::now());
          each->stop_injecting();
        }
        return all;
      },
      "removing faults");
  std::size_t count = 0;
  Result<void> all_answered;
  for (const auto& of_shard : removed) {
    if (!of_shard) {
      if (all_answered) all_answered = Failure(of_shard.error());
      continue;
    }
    for (const Removed& each : *of_shard) {
      events::tell(log::Level::kInfo, fault_of(each.adapter), "adapter {}: fault {} is removed", each.adapter,
                   each.fault);
    }
    count += of_shard->size();
  }
  if (!all_answered) return all_answered;
  if (id && count == 0) return Failure(no_such("fault", std::to_string(*id), "fault"));
  return {};
}

}  // namespace pvrdma::adapters
