// Each thing that can go wrong, at each call of a motion. Afterwards the VM runs on exactly one host. It runs
// on no host only if a daemon or QEMU died at the wrong moment. It never runs on two.
#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <thread>
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
// More than the calls of a daemon, and the commands to a QEMU, in any motion that the daemons lead.
constexpr int kCallsMax = 200;

// The daemons of a world mostly wait, so this many worlds run side by side.
constexpr std::size_t kWorldsAtOnce = 8;

using Worlds = std::vector<std::unique_ptr<MotionWorld>>;

void run_side_by_side(const Worlds& worlds) {
  std::vector<std::jthread> threads;
  for (const auto& world : worlds) {
    threads.emplace_back([&world] {
      SCOPED_TRACE(world->describe());
      world->run();
    });
  }
}

// Runs a world for each of these mishaps, and checks those in which it happened. Returns their number. Ends
// early after a failure, and at the first world in which the mishap did not happen.
template <typename Check>
int run_worlds(std::span<const Mishap> mishaps, Leader leader, Check check) {
  int tried = 0;
  while (!mishaps.empty()) {
    const auto some = mishaps.first(std::min(kWorldsAtOnce, mishaps.size()));
    mishaps = mishaps.subspan(some.size());
    Worlds worlds;
    for (const Mishap& mishap : some)
      worlds.push_back(std::make_unique<MotionWorld>(std::vector{mishap}, leader));
    run_side_by_side(worlds);
    for (std::size_t i = 0; i < some.size(); ++i, ++tried) {
      if (testing::Test::HasFailure() || !worlds[i]->happened()) return tried;
      check(*worlds[i], some[i]);
    }
  }
  return tried;
}

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
  std::vector<Mishap> mishaps;
  for (int at = 0; at < kCallsMax; ++at) mishaps.push_back({fault, host, at});
  const int tried = run_worlds(mishaps, Leader::kDaemons, expect_outcome);
  EXPECT_LT(tried, kCallsMax);
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
  std::vector<Mishap> mishaps;
  for (int at = 0; at < kLedCallsMax; at += at < kLedCallsMax / 3 ? 1 : 3)
    mishaps.push_back({fault, host, at});
  EXPECT_GE(run_worlds(mishaps, Leader::kLibvirt, expect_led_outcome), 1);
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

// A world with two or three mishaps.
std::unique_ptr<MotionWorld> world_of(std::uint32_t seed, Leader leader) {
  constexpr Fault kAll[] = {Fault::kFails,      Fault::kDaemonDies, Fault::kDaemonComesBack,
                            Fault::kAnswerLost, Fault::kStoreAway,  Fault::kCutOff,
                            Fault::kQemuDies,   Fault::kQemuRefuses};
  const std::size_t calls = leader == Leader::kLibvirt ? 48 : 24;
  std::mt19937 random(seed);
  const auto below = [&random](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  std::vector<Mishap> mishaps;
  for (std::size_t i = 2 + below(2); i > 0; --i)
    mishaps.push_back({kAll[below(std::size(kAll))], below(2) == 0 ? Host::kSource : Host::kDestination,
                       static_cast<int>(below(calls))});
  return std::make_unique<MotionWorld>(std::move(mishaps), leader);
}

// With several mishaps at once, only what each step checks is expected, and that the motion ends.
class SeveralMishapsTest : public testing::TestWithParam<Leader> {};

TEST_P(SeveralMishapsTest, LeaveTheVmOnOneHostAtMost) {
  int happened = 0;
  for (std::uint32_t seed = 0; seed < 60 && !HasFailure();) {
    Worlds worlds;
    for (; worlds.size() < kWorldsAtOnce && seed < 60; ++seed) worlds.push_back(world_of(seed, GetParam()));
    run_side_by_side(worlds);
    for (const auto& world : worlds) happened += world->happened() ? 1 : 0;
    if (HasFailure()) ADD_FAILURE() << "in one of the " << worlds.size() << " worlds before seed " << seed;
  }
  EXPECT_GE(happened, 40);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, SeveralMishapsTest, testing::Values(Leader::kDaemons, Leader::kLibvirt),
                         [](const auto& test) {
                           return test.param == Leader::kLibvirt ? "LibvirtLeads" : "DaemonsLead";
                         });

}  // namespace
}  // namespace pvrdma::motion
