// AdapterRates: how fast a guest and its client may make an adapter work, according to its budgets. Work over
// a rate is still done, but the client is not read until held_until().
//
// Thread: shard-owned.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/time.h"
#include "device/adapter_log.h"
#include "device/rate_limit.h"
#include "device/saved.h"
#include "vocabulary/budgets.h"

namespace pvrdma::device {

class AdapterRates {
 public:
  // `log` is borrowed and outlives this.
  AdapterRates(const Budgets& budgets, AdapterLog& log)
      : commands_per_s_(budgets.commands_per_s), doorbells_per_s_(budgets.doorbells_per_s), log_(log) {}

  void count_command(Instant now) {
    if (commands_.take(1, now)) log_.slowed(Budget::kCommands, commands_per_s_);
  }
  void count_doorbells(std::uint32_t count, Instant now) {
    if (doorbells_.take(count, now)) [[unlikely]]
      log_.slowed(Budget::kDoorbells, doorbells_per_s_);
  }
  // Charges work for the client that takes as long as this many commands. It has its own rate, because the
  // guest has not caused it: a client that repeats it delays only itself.
  void count_for_client(std::uint64_t commands, Instant now) {
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(commands, UINT32_MAX));
    if (for_client_.take(count, now)) log_.slowed(Budget::kCommands, commands_per_s_);
  }

  // Instant{}: no rate is exceeded.
  Instant held_until() const {
    return std::max({commands_.held_until(), doorbells_.held_until(), for_client_.held_until()});
  }
  Instant doorbells_held_until() const { return doorbells_.held_until(); }

  SavedRates save(Instant now) const { return {commands_.save(now), doorbells_.save(now)}; }
  void restore(const SavedRates& saved, Instant now) {
    commands_.restore(saved.commands, now);
    doorbells_.restore(saved.doorbells, now);
  }

  std::array<BudgetUse, 2> uses(Instant now) const {
    return {
        BudgetUse{Budget::kCommands, commands_.last_second(now), commands_per_s_, commands_.slowed()},
        BudgetUse{Budget::kDoorbells, doorbells_.last_second(now), doorbells_per_s_, doorbells_.slowed()}};
  }

 private:
  const std::uint64_t commands_per_s_;
  const std::uint64_t doorbells_per_s_;
  AdapterLog& log_;
  RateLimit commands_{commands_per_s_};
  RateLimit doorbells_{doorbells_per_s_};
  RateLimit for_client_{commands_per_s_};
};

}  // namespace pvrdma::device
