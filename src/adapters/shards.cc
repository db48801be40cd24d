#include "adapters/shards.h"

#include "base/check.h"

namespace pvrdma::adapters {

Shards::Shards(std::vector<Shard> shards) : shards_(std::move(shards)) {
  PVRDMA_CHECK(!shards_.empty(), "a host has a shard");
  for (const Shard& each : shards_) loops_.push_back(&each.loop);
}

std::shared_lock<std::shared_mutex> Shards::share() const {
  const std::lock_guard turn(turn_);
  return std::shared_lock(moving_);
}

Result<Shards::Serving> Shards::of(const std::string& adapter) const {
  auto stays = share();
  const auto found = find(adapter);
  if (!found) return Failure(found.error());
  return Serving(std::move(stays), shards_[*found]);
}

Result<std::size_t> Shards::find(const std::string& adapter) const {
  if (shards_.size() == 1) return 0;
  const auto answers = shard::ask_all(
      loops_, kShardPatience,
      [this, adapter](std::size_t index) { return shards_[index].adapters.find(adapter) != nullptr; },
      "looking for an adapter");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] && *answers[i]) return i;
  }
  for (const auto& answer : answers) {
    if (!answer) return Failure(answer.error());
  }
  return Failure(no_such("adapter", adapter, "adapter"));
}

Shards::Standstill::Standstill(const Shards& shards) : shards_(shards) {
  const std::lock_guard turn(shards.turn_);
  alone_ = std::unique_lock(shards.moving_);
}

}  // namespace pvrdma::adapters
