#include "adapters/shard_placement.h"

#include <cerrno>
#include <fmt/core.h>
#include <memory>
#include <thread>

#include "base/events.h"
#include "base/log.h"

namespace pvrdma::adapters {
namespace {

constexpr const char* kWhat = "moving an adapter to another shard";
// A step that must be done is asked for again, because the adapter does nothing until then. A shard that has
// not done it after this time is stuck, and so is everything on it.
constexpr Duration kPersistence = std::chrono::seconds(60);
constexpr Duration kAskAgain = std::chrono::milliseconds(10);

// `step` takes the shard's AdapterSet&. It may be run more than once.
template <typename Step>
void insist(const Shard& shard, const std::string& adapter, Step step) {
  const Instant until = Instant::now() + kPersistence;
  while (true) {
    const auto done = shard::ask(
        shard.loop, kShardPatience,
        [&adapters = shard.adapters, step] {
          step(adapters);
          return true;
        },
        kWhat);
    if (done) return;
    if (Instant::now() >= until) {
      log::error("adapter {}: stays stopped: a step of its move to another shard is not done: {}", adapter,
                 done.error().message);
      return;
    }
    std::this_thread::sleep_for(kAskAgain);
  }
}

template <typename Step>
auto ask(const Shard& shard, Step step) -> std::invoke_result_t<Step, AdapterSet&> {
  auto answer = shard::ask(
      shard.loop, kShardPatience,
      [&adapters = shard.adapters, step = std::move(step)]() mutable { return step(adapters); }, kWhat);
  if (!answer) return Failure(std::move(answer).error());
  return *std::move(answer);
}

Result<Placed> move(const Shard& from, const Shard& to, const std::string& adapter) {
  auto left = ask(from, [adapter](AdapterSet& set) { return set.begin_to_leave(adapter); });
  if (!left) return Failure(std::move(left).error());
  const auto moving = std::make_shared<const MovingAdapter>(*std::move(left));
  const auto settle = [adapter](AdapterSet& set) { set.settle(adapter); };
  const auto follower = ask(to, [moving](AdapterSet& set) { return set.begin_to_come(*moving); });
  if (!follower) {
    insist(from, adapter, settle);
    return Failure(follower.error());
  }
  auto handed = ask(from, [adapter, follower = *follower](AdapterSet& set) -> Result<void> {
    set.hand_over(adapter, follower);
    return {};
  });
  if (!handed) {
    insist(to, adapter, [adapter](AdapterSet& set) { set.turn_away(adapter); });
    insist(from, adapter, settle);
    return Failure(std::move(handed).error());
  }
  insist(to, adapter, settle);
  return Placed{.pause = Instant::now() - moving->stopped_at};
}

std::string text_of(const std::string& adapter, const Placed& placed) {
  return fmt::format("adapter {}: moved from shard {} to shard {}, in {} us", adapter, placed.from, placed.to,
                     microseconds_of(placed.pause));
}

}  // namespace

Result<Placed> ShardPlacement::place(const std::string& adapter, std::uint32_t shard) {
  if (shards_.count() == 1) {
    return fail(ErrorKind::kConflict,
                fmt::format("adapter {} has no other shard to go to: this host has one; pvrdmactl --json "
                            "system shard list says why",
                            adapter));
  }
  if (shard >= shards_.count()) {
    Error error{
        .message = fmt::format("there is no shard {}: this host has 0 to {}", shard, shards_.count() - 1),
        .kind = ErrorKind::kInvalid};
    error.field = "shard";
    return Failure(std::move(error));
  }
  if (auto idle = check_idle_(adapter); !idle) return Failure(std::move(idle).error());
  const Shards::Standstill standstill(shards_);
  auto placed = go(standstill, adapter, shard);
  if (placed) {
    chosen_.insert(adapter);
    if (placed->from != placed->to) log::info("{}", text_of(adapter, *placed));
  } else if (placed.error().kind != ErrorKind::kNotFound) {
    log::warn("adapter {}: does not move to shard {}: {}", adapter, shard, placed.error().message);
  }
  return placed;
}

Result<Placed> ShardPlacement::relieve(const Relief& relief) {
  const auto try_it = [&]() -> Result<Placed> {
    if (auto idle = check_idle_(relief.adapter); !idle) return Failure(std::move(idle).error());
    const Shards::Standstill standstill(shards_);
    if (chosen_.contains(relief.adapter))
      return fail(ErrorKind::kConflict,
                  fmt::format("adapter {} stays on its shard, which an operator has chosen", relief.adapter));
    if (const auto from = standstill.shard_of(relief.adapter); from && *from == shards_.ward())
      return fail(ErrorKind::kConflict, fmt::format("adapter {} stays in the ward", relief.adapter));
    return go(standstill, relief.adapter, relief.to);
  };
  auto placed = try_it();
  if (placed) {
    ++own_moves_;
    log::info("{}: {}", text_of(relief.adapter, *placed), reason_of(relief));
  } else {
    log::debug("adapter {}: does not move to shard {}: {}", relief.adapter, relief.to,
               placed.error().message);
  }
  return placed;
}

Result<Placed> ShardPlacement::put_into_ward(const std::string& adapter, std::string_view why) {
  if (auto idle = check_idle_(adapter); !idle) return Failure(std::move(idle).error());
  const Shards::Standstill standstill(shards_);
  auto placed = go(standstill, adapter, shards_.ward().value());
  if (!placed || placed->from == placed->to) return placed;
  ++ward_moves_;
  events::tell(log::Level::kWarn,
               {.type = events::Type::kShard, .kind = events::Kind::kVm, .object = adapter},
               "{}: that is the ward: {}", text_of(adapter, *placed), why);
  return placed;
}

Result<Placed> ShardPlacement::go(const Shards::Standstill& standstill, const std::string& adapter,
                                  std::uint32_t shard) {
  const auto from = standstill.shard_of(adapter);
  if (!from) return Failure(from.error());
  const auto number = static_cast<std::uint32_t>(*from);
  if (number == shard) return Placed{.from = shard, .to = shard};
  const auto move_it = [&] { return move(shards_[number], shards_[shard], adapter); };
  auto placed = views_ != nullptr ? views_->while_held(adapter, shard, move_it) : move_it();
  if (!placed) return placed;
  placed->from = number;
  placed->to = shard;
  ++moves_;
  return placed;
}

}  // namespace pvrdma::adapters
