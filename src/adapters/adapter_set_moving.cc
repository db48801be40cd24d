// An adapter's move to another shard of this host: what the sets of the two shards do (shard_placement.h).
#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "adapters/adapter_set.h"
#include "adapters/adapter_setup.h"
#include "base/no_such.h"

namespace pvrdma::adapters {

Result<MovingAdapter> AdapterSet::begin_to_leave(const std::string& name) {
  ServedAdapter* const served = find(name);
  if (served == nullptr) return Failure(no_such("adapter", name, "adapter"));
  const auto config = statics_.find(name);
  if (config == statics_.end())
    return fail(ErrorKind::kConflict,
                fmt::format("adapter {} stays on its shard, because it is a cluster's VM's", name));
  MovingAdapter moving{.config = config->second,
                       .port = {},
                       .given = {},
                       .link_is_up = served->adapter().link_is_up(),
                       .stopped_at = clock_.now()};
  auto given = served->begin_to_leave(moving.stopped_at);
  if (!given) return Failure(std::move(given).error());
  moving.given = *std::move(given);
  moving.port = served->port().as_predecessor();
  return moving;
}

Result<fabric::HostGids::Holder> AdapterSet::begin_to_come(const MovingAdapter& moving) {
  AdapterSetup setup = to_setup(moving.config, moving.config.budgets, account_);
  setup.predecessor = moving.port;
  keep_to_client(setup, &moving.given);
  adapters_.reserve(adapters_.size() + 1);
  auto made = ServedAdapter::create(setup, fabric_.segment(transport::SegmentId{}), parts_, &moving.given);
  if (!made) return Failure(std::move(made).error());
  ServedAdapter& served = **made;
  if (auto started = served.start(); !started) return Failure(std::move(started).error());
  if (auto come = served.begin_to_come(moving.given); !come) return Failure(std::move(come).error());
  if (served.adapter().link_is_up() != moving.link_is_up) served.set_link(moving.link_is_up);
  statics_.emplace(moving.config.name, moving.config);
  adapters_.push_back(*std::move(made));
  return served.port().as_holder();
}

void AdapterSet::hand_over(const std::string& name, const fabric::HostGids::Holder& follower) {
  ServedAdapter* const served = find(name);
  if (served == nullptr) return;
  served->hand_over(follower);
  destroy(*served);
  statics_.erase(name);
}

void AdapterSet::turn_away(const std::string& name) {
  const ServedAdapter* const served = find(name);
  if (served != nullptr) destroy(*served);
  statics_.erase(name);
}

void AdapterSet::settle(const std::string& name) {
  if (ServedAdapter* const served = find(name); served != nullptr) served->settle();
}

}  // namespace pvrdma::adapters
