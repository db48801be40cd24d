// An adapter's move to another shard of this host: what the sets of the two shards do (shard_placement.h).
#include <algorithm>
#include <fmt/core.h>
#include <new>
#include <utility>

#include "adapters/adapter_set.h"
#include "adapters/adapter_setup.h"
#include "base/no_such.h"

namespace pvrdma::adapters {

Result<MovingAdapter> AdapterSet::begin_to_leave(const std::string& name) {
  ServedAdapter* const served = find(name);
  if (served == nullptr) return Failure(no_such("adapter", name, "adapter"));
  MovingAdapter moving{.name = name,
                       .origin = {},
                       .port = {},
                       .given = {},
                       .refusal = served->refusal(),
                       .link_is_up = served->adapter().link_is_up(),
                       .stopped_at = clock_.now()};
  if (const auto config = statics_.find(name); config != statics_.end()) {
    moving.origin = config->second;
  } else {
    const Provided& provided = provided_.at(name);
    MovingVm& vm = moving.origin.emplace<MovingVm>(MovingVm{provided.made, provided.is_as_before, {}});
    if (const auto wanted = wanted_.find(name); wanted != wanted_.end()) vm.wanted = wanted->second;
  }
  auto given = served->begin_to_leave(moving.stopped_at);
  if (!given) return Failure(std::move(given).error());
  moving.given = *std::move(given);
  moving.port = served->port().as_predecessor();
  return moving;
}

Result<fabric::HostGids::Holder> AdapterSet::begin_to_come(const MovingAdapter& moving) {
  if (std::holds_alternative<MovingVm>(moving.origin) && wanted_.contains(moving.name)) {
    return fail(ErrorKind::kConflict,
                fmt::format("adapter {} stays on its shard, because its VM was made anew: power it off first",
                            moving.name));
  }
  auto made = make_follower(moving);
  if (!made) return Failure(std::move(made).error());
  ServedAdapter& served = **made;
  try {
    adapters_.reserve(adapters_.size() + 1);
    enter(moving, served);
  } catch (const std::bad_alloc&) {
    forget(moving.name);
    throw;
  }
  adapters_.push_back(*std::move(made));
  return served.port().as_holder();
}

Result<std::unique_ptr<ServedAdapter>> AdapterSet::make_follower(const MovingAdapter& moving) {
  const auto* const vm = std::get_if<MovingVm>(&moving.origin);
  const auto* const config = std::get_if<control::AdapterConfig>(&moving.origin);
  AdapterSetup setup = vm != nullptr ? to_setup(vm->made, vm_budgets_, account_)
                                     : to_setup(*config, config->budgets, account_);
  setup.predecessor = moving.port;
  keep_to_client(setup, &moving.given);
  const transport::SegmentId segment = vm != nullptr ? vm->made.segment : transport::SegmentId{};
  auto made = ServedAdapter::create(setup, fabric_.segment(segment), parts_, &moving.given);
  if (!made) return made;
  ServedAdapter& served = **made;
  if (auto started = served.start(); !started) return Failure(std::move(started).error());
  if (auto come = served.begin_to_come(moving.given); !come) return Failure(std::move(come).error());
  if (served.adapter().link_is_up() != moving.link_is_up) served.set_link(moving.link_is_up);
  served.refuse_clients(moving.refusal);
  return made;
}

void AdapterSet::enter(const MovingAdapter& moving, ServedAdapter& served) {
  if (const auto* const config = std::get_if<control::AdapterConfig>(&moving.origin)) {
    statics_.emplace(moving.name, *config);
    return;
  }
  const MovingVm& vm = std::get<MovingVm>(moving.origin);
  if (vm.wanted) wanted_.emplace(moving.name, *vm.wanted);
  provided_.insert_or_assign(moving.name, Provided{vm.made, &served, {}, vm.is_as_before});
}

void AdapterSet::hand_over(const std::string& name, const fabric::HostGids::Holder& follower) {
  ServedAdapter* const served = find(name);
  if (served == nullptr) return;
  served->hand_over(follower);
  destroy(*served);
  forget(name);
}

void AdapterSet::turn_away(const std::string& name) {
  const ServedAdapter* const served = find(name);
  if (served != nullptr) destroy(*served);
  forget(name);
}

void AdapterSet::forget(const std::string& name) {
  statics_.erase(name);
  wanted_.erase(name);
  provided_.erase(name);
}

// What waited for the end of the move can start.
void AdapterSet::settle(const std::string& name) {
  ServedAdapter* const served = find(name);
  if (served == nullptr) return;
  served->settle();
  if (!is_static(name)) due_ = clock_.now();
}

}  // namespace pvrdma::adapters
