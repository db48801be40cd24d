// Each thing that can go wrong, at each call of a motion: the VM runs on one host, or where a daemon or QEMU
// died at the wrong moment on none, and never on two.
#include <gtest/gtest.h>
#include <tuple>

#include "motion/motion_world_fixture.h"

namespace pvrdma::motion {
namespace {

TEST(MotionModel, AVmGoesToTheOtherHost) {
  MotionWorld world({});
  world.run();
  EXPECT_EQ(world.sentence(), "");
  EXPECT_TRUE(world.committed());
  EXPECT_TRUE(world.runs(Host::kDestination) && world.serves(Host::kDestination));
  EXPECT_FALSE(world.runs(Host::kSource));
}

// Where the VM must be after it.
void expect_outcome(const MotionWorld& world, const Mishap& mishap) {
  const std::string what = world.describe();
  if (!world.committed()) {
    EXPECT_FALSE(world.runs(Host::kDestination) || world.serves(Host::kDestination)) << what;
  }
  const Host host = world.committed() ? Host::kDestination : Host::kSource;
  const bool daemon_died = mishap.fault == Fault::kDaemonDies || mishap.fault == Fault::kDaemonComesBack;
  const bool died = daemon_died || mishap.fault == Fault::kQemuDies;
  if (died && mishap.host == host) return;  // there is nothing to be done
  if (mishap.host == Host::kDestination && world.committed()) {
    // What fails there after the commit may leave it in a QEMU that stands, with a sentence in the log.
    EXPECT_FALSE(world.runs(Host::kSource)) << what;
    return;
  }
  EXPECT_TRUE(world.runs(host)) << what;
  EXPECT_TRUE(world.serves(host)) << what;
  if (world.was_ready() && daemon_died && mishap.host == Host::kSource) {
    EXPECT_TRUE(world.committed()) << what;
  }
}

class MishapTest : public testing::TestWithParam<std::tuple<Fault, Host>> {};

TEST_P(MishapTest, LeavesTheVmOnOneHost) {
  const auto [fault, host] = GetParam();
  int tried = 0;
  for (int at = 0;; ++at) {
    const Mishap mishap{fault, host, at};
    MotionWorld world(mishap);
    world.run();
    if (!world.happened()) break;
    ++tried;
    expect_outcome(world, mishap);
    if (HasFailure()) break;
  }
  EXPECT_GE(tried, 2);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Fault, Host>>& info) {
  constexpr const char* kFaults[] = {"None",       "Fails",     "DaemonDies", "DaemonComesBack",
                                     "AnswerLost", "StoreAway", "QemuDies",   "QemuRefuses"};
  return std::string(kFaults[static_cast<int>(std::get<0>(info.param))]) +
         (std::get<1>(info.param) == Host::kSource ? "AtTheSource" : "AtTheDestination");
}

INSTANTIATE_TEST_SUITE_P(Everywhere, MishapTest,
                         testing::Combine(testing::Values(Fault::kFails, Fault::kDaemonDies,
                                                          Fault::kDaemonComesBack, Fault::kAnswerLost,
                                                          Fault::kStoreAway, Fault::kQemuDies,
                                                          Fault::kQemuRefuses),
                                          testing::Values(Host::kSource, Host::kDestination)),
                         name_of);

}  // namespace
}  // namespace pvrdma::motion
