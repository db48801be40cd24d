#include "adapters/shards.h"

#include "base/check.h"

namespace pvrdma::adapters {

Shards::Shards(std::vector<Shard> shards) : shards_(std::move(shards)) {
  PVRDMA_CHECK(!shards_.empty(), "a host has a shard");
  for (const Shard& each : shards_) loops_.push_back(&each.loop);
}

Result<const Shard*> Shards::of(const std::string& adapter) const {
  if (shards_.size() == 1) return &shards_.front();
  const auto answers =
      ask_all([this, adapter](std::size_t index) { return shards_[index].adapters.find(adapter) != nullptr; },
              "looking for an adapter");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] && *answers[i]) return &shards_[i];
  }
  for (const auto& answer : answers) {
    if (!answer) return Failure(answer.error());
  }
  return Failure(no_such("adapter", adapter, "adapter"));
}

}  // namespace pvrdma::adapters
