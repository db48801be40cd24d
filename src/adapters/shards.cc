#include "adapters/shards.h"

#include <algorithm>
#include <fmt/core.h>
#include <thread>

#include "base/check.h"

namespace pvrdma::adapters {
namespace {

constexpr Duration kLookAgain = std::chrono::microseconds(100);
constexpr Duration kStillPatience = std::chrono::seconds(1);  // nobody else can ask meanwhile

}  // namespace

Shards::Shards(std::vector<Shard> shards) : shards_(std::move(shards)) {
  PVRDMA_CHECK(!shards_.empty(), "a host has a shard");
  for (const Shard& each : shards_) loops_.push_back(&each.loop);
}

std::string Shards::name_of(std::size_t index) const {
  return fmt::format("shard {}{}", index, index == ward() ? ", the ward" : "");
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
  const Instant until = Instant::now() + kShardPatience;
  std::vector<shard::Asked<bool>> asked;
  asked.reserve(shards_.size());
  for (const Shard& each : shards_)
    asked.emplace_back(
        each.loop, [&set = each.adapters, adapter] { return set.find(adapter) != nullptr; },
        "looking for an adapter");
  std::optional<Error> unknown;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto has_it = asked[i].wait(std::max<Duration>(until - Instant::now(), Duration{}));
    if (has_it && *has_it) return i;
    if (!has_it && !unknown) unknown = Error(has_it.error()).in(name_of(i));
  }
  if (unknown) return Failure(*std::move(unknown));
  return Failure(no_such("adapter", adapter, "adapter"));
}

Result<Shards::Standstill> Shards::stand_still() const {
  const std::lock_guard turn(turn_);
  std::unique_lock alone(moving_, std::defer_lock);
  // ThreadSanitizer does not know what std::shared_timed_mutex waits by.
  for (const Instant until = Instant::now() + kStillPatience; !alone.try_lock();) {
    if (Instant::now() >= until)
      return fail(ErrorKind::kUnavailable, "the shards are busy with a question: try again in a moment");
    std::this_thread::sleep_for(kLookAgain);
  }
  return Standstill(*this, std::move(alone));
}

}  // namespace pvrdma::adapters
