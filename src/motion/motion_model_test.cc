// Each thing that can go wrong, at each call of a motion. Afterwards the VM runs on exactly one host. It runs
// on no host only if a daemon or QEMU died at the wrong moment. It never runs on two.
#include <cstdint>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

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

// If libvirt leads, the daemon asks for the progress again and again, so later calls repeat earlier ones.
constexpr int kLedCallsMax = 60;

// Checks where the VM is after the mishap.
void expect_outcome(const MotionWorld& world, const Mishap& mishap) {
  const std::string what = world.describe();
  if (!world.committed()) {
    EXPECT_FALSE(world.runs(Host::kDestination) || world.serves(Host::kDestination)) << what;
  }
  const Host host = world.committed() ? Host::kDestination : Host::kSource;
  const bool daemon_died = mishap.fault == Fault::kDaemonDies || mishap.fault == Fault::kDaemonComesBack;
  const bool died = daemon_died || mishap.fault == Fault::kQemuDies;
  if (died && mishap.host == host) return;  // nobody is left to act
  if (mishap.fault == Fault::kQemuRefuses && mishap.host == host && world.committed()) {
    // The VM may stay paused in a QEMU that refuses a command; the log has a sentence about it.
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
    MotionWorld world({mishap});
    world.run();
    if (!world.happened()) break;
    ++tried;
    expect_outcome(world, mishap);
    if (HasFailure()) break;
  }
  // A destination that looks late learns the answer at its first look.
  const bool may_ask_once = fault == Fault::kAnswerLost && host == Host::kDestination;
  EXPECT_GE(tried, may_ask_once ? 1 : 2);
}

// Checks that the VM is served on the host where libvirt has put it.
void expect_led_outcome(const MotionWorld& world, const Mishap& mishap) {
  const std::string what = world.describe();
  const bool is_there = world.runs(Host::kDestination);
  if (!is_there && !world.runs(Host::kSource)) {
    EXPECT_EQ(mishap.fault, Fault::kQemuDies) << what;
    return;
  }
  const Host host = is_there ? Host::kDestination : Host::kSource;
  const bool daemon_died = mishap.fault == Fault::kDaemonDies || mishap.fault == Fault::kDaemonComesBack;
  if (daemon_died && mishap.host == host) return;
  EXPECT_TRUE(world.serves(host)) << what;
  EXPECT_EQ(world.committed(), is_there) << what;
}

TEST(MotionModel, LibvirtTakesAVmToTheOtherHost) {
  MotionWorld world({}, Leader::kLibvirt);
  world.run();
  EXPECT_EQ(world.sentence(), "");
  EXPECT_TRUE(world.committed());
  EXPECT_TRUE(world.runs(Host::kDestination) && world.serves(Host::kDestination));
  EXPECT_FALSE(world.runs(Host::kSource) || world.is_lost());
}

class LedMishapTest : public testing::TestWithParam<std::tuple<Fault, Host>> {};

TEST_P(LedMishapTest, LeavesTheVmServedWhereItRuns) {
  const auto [fault, host] = GetParam();
  int tried = 0;
  for (int at = 0; at < kLedCallsMax; at += at < kLedCallsMax / 3 ? 1 : 3) {
    const Mishap mishap{fault, host, at};
    MotionWorld world({mishap}, Leader::kLibvirt);
    world.run();
    if (!world.happened()) break;
    ++tried;
    expect_led_outcome(world, mishap);
    if (HasFailure()) break;
  }
  EXPECT_GE(tried, 1);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Fault, Host>>& info) {
  constexpr const char* kFaults[] = {"Fails",       "DaemonDies",     "DaemonComesBack",  "AnswerLost",
                                     "StoreAway",   "CutOff",         "ResumedMeanwhile", "QemuDies",
                                     "QemuRefuses", "LibvirtGivesUp", "Cancelled",        "SomebodyResumes"};
  return std::string(kFaults[static_cast<int>(std::get<0>(info.param))]) +
         (std::get<1>(info.param) == Host::kSource ? "AtTheSource" : "AtTheDestination");
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, MishapTest,
    testing::Combine(testing::Values(Fault::kFails, Fault::kDaemonDies, Fault::kDaemonComesBack,
                                     Fault::kAnswerLost, Fault::kStoreAway, Fault::kCutOff,
                                     Fault::kResumedMeanwhile, Fault::kQemuDies, Fault::kQemuRefuses),
                     testing::Values(Host::kSource, Host::kDestination)),
    name_of);

INSTANTIATE_TEST_SUITE_P(AtTheSource, MishapTest,
                         testing::Combine(testing::Values(Fault::kCancelled, Fault::kSomebodyResumes),
                                          testing::Values(Host::kSource)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(AtTheSource, LedMishapTest,
                         testing::Combine(testing::Values(Fault::kCancelled), testing::Values(Host::kSource)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Everywhere, LedMishapTest,
                         testing::Combine(testing::Values(Fault::kFails, Fault::kDaemonDies,
                                                          Fault::kDaemonComesBack, Fault::kAnswerLost,
                                                          Fault::kStoreAway, Fault::kQemuDies,
                                                          Fault::kQemuRefuses, Fault::kLibvirtGivesUp),
                                          testing::Values(Host::kSource, Host::kDestination)),
                         name_of);

// With several mishaps at once, only what each step checks is expected, and that the motion ends.
class SeveralMishapsTest : public testing::TestWithParam<Leader> {};

TEST_P(SeveralMishapsTest, LeaveTheVmOnOneHostAtMost) {
  constexpr Fault kAll[] = {Fault::kFails,      Fault::kDaemonDies, Fault::kDaemonComesBack,
                            Fault::kAnswerLost, Fault::kStoreAway,  Fault::kCutOff,
                            Fault::kQemuDies,   Fault::kQemuRefuses};
  const std::size_t calls = GetParam() == Leader::kLibvirt ? 48 : 24;
  int happened = 0;
  for (std::uint32_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
    std::vector<Mishap> mishaps;
    for (std::size_t i = 2 + below(2); i > 0; --i)
      mishaps.push_back({kAll[below(std::size(kAll))], below(2) == 0 ? Host::kSource : Host::kDestination,
                         static_cast<int>(below(calls))});
    MotionWorld world(std::move(mishaps), GetParam());
    world.run();
    happened += world.happened() ? 1 : 0;
    if (HasFailure()) ADD_FAILURE() << "seed " << seed << ": " << world.describe();
  }
  EXPECT_GE(happened, 40);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, SeveralMishapsTest, testing::Values(Leader::kDaemons, Leader::kLibvirt),
                         [](const auto& test) {
                           return test.param == Leader::kLibvirt ? "LibvirtLeads" : "DaemonsLead";
                         });

}  // namespace
}  // namespace pvrdma::motion
