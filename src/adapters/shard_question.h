// Shared by the questions to the shard about one adapter.
#pragma once

#include <algorithm>
#include <string>

#include "adapters/adapter_set.h"
#include "base/no_such.h"
#include "base/result.h"
#include "base/time.h"

namespace pvrdma::adapters {

inline constexpr Duration kShardPatience = std::chrono::seconds(2);

// Null: no such adapter. Called on the shard.
inline ServedAdapter* find(const AdapterSet& adapters, const std::string& name) {
  const auto& all = adapters.adapters();
  const auto it = std::ranges::find(all, name, [](const auto& each) { return each->port().name(); });
  return it == all.end() ? nullptr : it->get();
}

inline Failure no_adapter(const std::string& name) {
  return Failure(no_such("adapter", name, "adapter"));
}

}  // namespace pvrdma::adapters
