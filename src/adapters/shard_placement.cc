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
// A step that must be done is asked for again if the shard has no memory for it, because the adapter does
// nothing until then.
constexpr Duration kPersistence = std::chrono::seconds(60);
constexpr Duration kAskAgain = std::chrono::milliseconds(10);
// For a shard that has just answered, while all others are waited for.
constexpr Duration kAnswersAgain = std::chrono::milliseconds(500);

// `step` takes the shard's AdapterSet&. It may be run more than once. If the shard is late, it is done later.
template <typename Step>
void insist(const Shard& shard, const std::string& adapter, Step step) {
  const Instant until = Instant::now() + kPersistence;
  while (true) {
    const auto done = shard::insist(
        shard.loop, kShardPatience,
        [&adapters = shard.adapters, step] {
          step(adapters);
          return true;
        },
        kWhat);
    if (done || done.error().code == ETIMEDOUT) return;
    if (Instant::now() >= until) {
      log::error("adapter {}: stays stopped: a step of its move to another shard is not done: {}", adapter,
                 done.error().message);
      return;
    }
    std::this_thread::sleep_for(kAskAgain);
  }
}

Result<MovingAdapter> begin_to_leave(const Shard& from, const std::string& adapter) {
  auto left = shard::ask_or_undo(
      from.loop, kShardPatience, [&set = from.adapters, adapter] { return set.begin_to_leave(adapter); },
      [&set = from.adapters, adapter](const Result<MovingAdapter>* late) {
        if (late != nullptr && *late) set.settle(adapter);
      },
      kWhat);
  if (!left) return Failure(std::move(left).error());
  return *std::move(left);
}

// If it fails, the shard that the adapter leaves lets it go on: now, or, if the other shard is still at work
// on it, when that has turned it away. Only the adapter waits for that.
Result<fabric::HostGids::Holder> begin_to_come(const Shard& from, const Shard& to,
                                               const std::shared_ptr<const MovingAdapter>& moving) {
  using Follower = Result<fabric::HostGids::Holder>;
  const std::string& adapter = moving->name;
  const auto settle = [&set = from.adapters, adapter] {
    set.settle(adapter);
    return true;
  };
  auto asked = shard::ask_or_undo(
      to.loop, kShardPatience, [&set = to.adapters, moving] { return set.begin_to_come(*moving); },
      [&set = to.adapters, adapter, settle, &from = from.loop](const Follower* late) {
        if (late != nullptr && *late) set.turn_away(adapter);
        const shard::Asked<bool> last_step(
            from, settle, [](const bool*) {}, kWhat, shard::Room::kKept);
        if (!last_step.is_posted())
          log::error("adapter {}: stays stopped: its shard takes no task any more", adapter);
      },
      kWhat);
  Follower follower = asked ? *std::move(asked) : Follower(Failure(asked.error()));
  if (!follower && (asked || asked.error().code != EINPROGRESS))
    insist(from, adapter, [adapter](AdapterSet& set) { set.settle(adapter); });
  return follower;
}

Result<Placed> move(const Shard& from, const Shard& to, const std::string& adapter) {
  auto left = begin_to_leave(from, adapter);
  if (!left) return Failure(std::move(left).error());
  const auto moving = std::make_shared<const MovingAdapter>(*std::move(left));
  const auto follower = begin_to_come(from, to, moving);
  if (!follower) return Failure(follower.error());
  const auto settle = [adapter](AdapterSet& set) { set.settle(adapter); };
  const auto handed = shard::ask(
      from.loop, kShardPatience,
      [&adapters = from.adapters, adapter, follower = *follower] {
        adapters.hand_over(adapter, follower);
        return true;
      },
      kWhat);
  if (!handed) {
    insist(to, adapter, [adapter](AdapterSet& set) { set.turn_away(adapter); });
    insist(from, adapter, settle);
    return Failure(handed.error());
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
  auto placed = go(adapter, shard, Leader::kOperator);
  if (placed) {
    if (placed->from != placed->to) log::info("{}", text_of(adapter, *placed));
  } else if (placed.error().kind != ErrorKind::kNotFound) {
    log::warn("adapter {}: does not move to shard {}: {}", adapter, shard, placed.error().message);
  }
  return placed;
}

Result<Placed> ShardPlacement::relieve(const Relief& relief) {
  auto placed = go(relief.adapter, relief.to, Leader::kBalancer);
  if (placed) {
    if (placed->from != placed->to) log::info("{}: {}", text_of(relief.adapter, *placed), reason_of(relief));
  } else {
    log::debug("adapter {}: does not move to shard {}: {}", relief.adapter, relief.to,
               placed.error().message);
  }
  return placed;
}

Result<Placed> ShardPlacement::put_into_ward(const std::string& adapter, std::string_view why) {
  auto placed = go(adapter, static_cast<std::uint32_t>(shards_.ward().value()), Leader::kWard);
  if (!placed || placed->from == placed->to) return placed;
  events::tell(log::Level::kWarn,
               {.type = events::Type::kShard, .kind = events::Kind::kVm, .object = adapter},
               "{}: that is the ward: {}", text_of(adapter, *placed), why);
  return placed;
}

// The adapter and all that wait for its move would wait for a shard that is late. So this is asked first of
// all.
Result<void> ShardPlacement::check_answers(std::uint32_t shard, Duration patience) const {
  const auto answer = shard::ask(
      shards_[shard].loop, patience, [] { return true; }, kWhat);
  if (!answer) return Failure(Error(answer.error()).in(shards_.name_of(shard)));
  return {};
}

Result<Placed> ShardPlacement::go(const std::string& adapter, std::uint32_t shard, Leader leader) {
  if (auto idle = check_idle_(adapter); !idle) return Failure(std::move(idle).error());
  if (auto answers = check_answers(shard, kShardPatience); !answers)
    return Failure(std::move(answers).error());
  auto known = go_if(adapter, shard, leader, views_ == nullptr);
  if (!known) return Failure(std::move(known).error());
  if (*known) return **known;
  return views_->while_held(adapter, shard, [&]() -> Result<Placed> {
    auto placed = go_if(adapter, shard, leader, true);
    if (!placed) return Failure(std::move(placed).error());
    return **placed;
  });
}

Result<std::optional<Placed>> ShardPlacement::go_if(const std::string& adapter, std::uint32_t shard,
                                                    Leader leader, bool may_move) {
  const auto standstill = shards_.stand_still();
  if (!standstill) return Failure(standstill.error());
  const auto found = standstill->shard_of(adapter);
  if (!found) return Failure(found.error());
  const auto from = static_cast<std::uint32_t>(*found);
  if (leader == Leader::kBalancer) {
    if (auto may = check_balancing(adapter, from); !may) return Failure(std::move(may).error());
  }
  if (from != shard && !may_move) return std::optional<Placed>();
  Placed placed{.from = from, .to = shard};
  if (from != shard) {
    if (auto answers = check_answers(shard, kAnswersAgain); !answers)
      return Failure(std::move(answers).error());
    const auto moved = move(shards_[from], shards_[shard], adapter);
    if (!moved) return Failure(moved.error());
    placed.pause = moved->pause;
    ++moves_;
    if (leader == Leader::kBalancer) ++own_moves_;
    if (leader == Leader::kWard) ++ward_moves_;
  }
  if (leader == Leader::kOperator) chosen_.insert(adapter);
  return std::optional(placed);
}

Result<void> ShardPlacement::check_balancing(const std::string& adapter, std::size_t shard) const {
  if (chosen_.contains(adapter))
    return fail(ErrorKind::kConflict,
                fmt::format("adapter {} stays on its shard, which an operator has chosen", adapter));
  if (shard == shards_.ward())
    return fail(ErrorKind::kConflict, fmt::format("adapter {} stays in the ward", adapter));
  return {};
}

}  // namespace pvrdma::adapters
