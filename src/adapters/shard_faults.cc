#include "adapters/shard_faults.h"

#include <algorithm>
#include <fmt/core.h>

#include "adapters/adapter_fault.h"
#include "adapters/shard_question.h"
#include "base/log.h"
#include "base/no_such.h"
#include "shard/ask.h"

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
  auto fault = AdapterFault::create(
      made_.fetch_add(1) + 1, seeded,
      {.transports = fabric_.transports(), .inbound = fabric_, .roce = roce_, .clock = clock_},
      reaper_.open_queue());
  struct Added {
    bool found = false;
    std::uint64_t other = 0;  // the fault that the adapter has already
    FaultState state;
  };
  const auto added = shard::ask(
      loop_, kShardPatience,
      [&adapters = adapters_, adapter = wish.adapter, fault = std::move(fault)] {
        ServedAdapter* found = find(adapters, adapter);
        if (found == nullptr) return Added{};
        Added done{true, 0, fault->state()};
        if (!found->inject(fault)) done.other = found->fault()->id();
        return done;
      },
      "adding a fault");
  if (!added) return Failure(added.error());
  if (!added->found) return no_adapter(wish.adapter);
  if (added->other != 0) {
    return fail(ErrorKind::kConflict,
                fmt::format("adapter {} has fault {} already: remove it first", wish.adapter, added->other));
  }
  log::warn("adapter {}: fault {} is injected into the messages that it sends, seed {}", wish.adapter,
            added->state.id, *seeded.seed);
  return added->state;
}

Result<std::vector<FaultState>> ShardFaults::list() {
  auto listed = shard::ask(
      loop_, kShardPatience,
      [&adapters = adapters_] {
        std::vector<FaultState> all;
        for (const auto& each : adapters.adapters()) {
          if (each->fault() != nullptr) all.push_back(each->fault()->state());
        }
        return all;
      },
      "listing the faults");
  if (!listed) return Failure(std::move(listed).error());
  std::ranges::sort(*listed, {}, &FaultState::id);
  return listed;
}

Result<void> ShardFaults::remove(std::optional<std::uint64_t> id) {
  const auto removed = shard::ask(
      loop_, kShardPatience,
      [&adapters = adapters_, id] {
        std::size_t count = 0;
        for (const auto& each : adapters.adapters()) {
          if (each->fault() == nullptr || (id && each->fault()->id() != *id)) continue;
          each->fault()->deliver_all(Instant::now());
          each->stop_injecting();
          ++count;
        }
        return count;
      },
      "removing faults");
  if (!removed) return Failure(removed.error());
  if (id && *removed == 0) return Failure(no_such("fault", std::to_string(*id), "fault"));
  return {};
}

}  // namespace pvrdma::adapters
