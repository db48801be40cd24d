// What a model of two shards has in common: the stores of the writing shard and of the reading one, which
// reach memory in order, at any time.
#pragma once

namespace pvrdma::model {

template <typename State, typename Steps>
void drain_stores(const State& state, Steps& out) {
  if (!state.writer.empty()) {
    State next = state;
    next.writer.drain_one(next.memory);
    out.push_back({next, "a store of the writer reaches memory", -1});
  }
  if (!state.reader.empty()) {
    State next = state;
    next.reader.drain_one(next.memory);
    out.push_back({next, "a store of the reader reaches memory", -1});
  }
}

}  // namespace pvrdma::model
