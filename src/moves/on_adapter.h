// on_adapter(): runs a function on the shard with an adapter, and waits for its result.
//
// Thread: any but the shard's.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <type_traits>
#include <utility>

#include "adapters/adapter_set.h"
#include "base/no_such.h"
#include "base/result.h"
#include "base/time.h"
#include "shard/ask.h"
#include "shard/loop.h"

namespace pvrdma::moves {

inline constexpr Duration kShardPatience = std::chrono::seconds(2);

// `work` takes the adapters::ServedAdapter& and returns a Result, which on_adapter() returns. Further errors:
// kNotFound: there is no such adapter; kUnavailable: the shard is stopping or did not answer in time.
template <typename Work>
auto on_adapter(shard::Loop& loop, const adapters::AdapterSet& adapters, const std::string& adapter,
                Work work) {
  using Answer = std::invoke_result_t<Work, adapters::ServedAdapter&>;
  auto answer = shard::ask(
      loop, kShardPatience,
      [&adapters, adapter, work = std::move(work)]() mutable -> Answer {
        const auto& all = adapters.adapters();
        const auto it =
            std::ranges::find_if(all, [&](const auto& each) { return each->port().name() == adapter; });
        if (it == all.end()) return Failure(no_such("adapter", adapter, "adapter"));
        return work(**it);
      },
      "a hand-over");
  return answer ? *std::move(answer) : Answer(Failure(std::move(answer).error()));
}

}  // namespace pvrdma::moves
