// The simulated hosts learn of changes like those of the product.
#include "sim/directory.h"

#include <algorithm>

#include "gtest/gtest.h"

#include "sim/lane_network.h"

namespace pvrdma::sim {
namespace {

constexpr transport::SegmentId kSegment{.dvs = 1, .vlan = 2};
constexpr Duration kLong = Directory::kLeaseMax;

// The host died and started again before its lease has ended, and its new start is not known yet.
TEST(SimDirectory, what_a_host_held_is_its_own_until_its_new_life_is_known) {
  Directory directory(1, 2, kSegment, {});
  Instant now{std::chrono::seconds(1)};
  const auto settle = [&] { static_cast<void>(directory.take_due(now = now + kLong)); };
  for (const std::uint32_t host : {0u, 1u}) directory.started(host, now);
  settle();
  directory.bound(0, verbs::Gid{}, now);
  settle();
  directory.died(0, now);
  directory.started(0, now);
  const fabric::View view = directory.view_for(1);
  ASSERT_EQ(view.gids.size(), 1u);
  EXPECT_TRUE(std::ranges::any_of(view.hosts, [](const auto& host) {
    return host.id == LaneNetwork::id_of(0);
  })) << "a GID of a host that is not in the view is nobody's";
  settle();
  EXPECT_TRUE(directory.view_for(1).gids.empty());
}

}  // namespace
}  // namespace pvrdma::sim
