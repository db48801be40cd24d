// How busy a shard was between two looks at it, and which part of that each of its adapters caused.
//
// A shard is busy while it does not sleep. So the time in which it spins for more work counts, and so does
// the time in which other programs have its core. Nothing measures how long one adapter keeps it busy. So the
// shard's time is divided by what its adapters did: a message counts as much as the copying of
// kBytesPerMessage.
//
// Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "verbs/counters.h"

namespace pvrdma::adapters {

// A short message takes 0.1 us, in which 1 KiB is copied (docs/performance.md).
inline constexpr std::uint64_t kBytesPerMessage = 1024;

// One look at a shard.
struct ShardSample {
  struct Adapter {
    std::string name;
    verbs::Counters counters;
  };
  Instant at;
  Duration asleep{0};
  std::vector<Adapter> adapters;
};

struct AdapterLoad {
  std::string name;
  double share = 0;  // of the time: 0 to the shard's `busy`
};

struct ShardLoad {
  double busy = 0;  // of the time: 0 to 1
  std::vector<AdapterLoad> adapters;
};

// The load of one shard between two looks. An adapter that came meanwhile, or whose counters began again,
// has no share yet.
ShardLoad load_between(const ShardSample& before, const ShardSample& after);

}  // namespace pvrdma::adapters
