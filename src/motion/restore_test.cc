#include "motion/restore.h"

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "motion/vm_world_fixture.h"

namespace pvrdma::motion {
namespace {

// A VmWorld whose QEMU waits for a VM.
class WaitingVm final : public VmWorld {
 public:
  explicit WaitingVm(const std::string& fails = {}, const std::string& run_state = "inmigrate")
      : VmWorld(fails, run_state) {}

  Result<RestoreReport> restore(std::vector<std::byte> state = FailingAdapterSide::saved(),
                                const std::string& file = kFile, bool stopping = false) {
    CheckpointWish from = wish();
    from.file = file;
    return Restore(from, std::move(state), side(), [stopping] { return stopping; }).run();
  }
  std::string run_state() { return standing().run_state; }
  bool quit() { return standing().quit; }
};

TEST(RestoreTest, TheVmGoesOn) {
  WaitingVm world;
  const auto report = world.restore();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->qemu.version, "11.1.3");
  EXPECT_EQ(world.run_state(), "running");
  EXPECT_FALSE(world.side().is_stopped());
  EXPECT_EQ(world.side().resumed(), 1);
  EXPECT_FALSE(world.quit());
}

class BeforeAnythingChanged : public testing::TestWithParam<Failing> {};

TEST_P(BeforeAnythingChanged, TheQemuGoesOnWaiting) {
  WaitingVm world(GetParam().what);
  const auto report = world.restore();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find(GetParam().message), std::string::npos) << report.error().message;
  EXPECT_EQ(world.run_state(), "inmigrate");
  EXPECT_FALSE(world.quit());
  EXPECT_FALSE(world.side().is_stopped());
}

INSTANTIATE_TEST_SUITE_P(Steps, BeforeAnythingChanged,
                         testing::Values(Failing{"query-version", "no query-version"},
                                         Failing{"query-status", "no query-status"},
                                         Failing{"query-pci", "no query-pci"},
                                         Failing{"side.load", "no side.load"}));

class OnTheWay : public testing::TestWithParam<Failing> {};

TEST_P(OnTheWay, TheQemuIsEnded) {
  WaitingVm world(GetParam().what);
  const auto report = world.restore();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find(GetParam().message), std::string::npos) << report.error().message;
  EXPECT_NE(report.error().message.find("was ended, and /var/lib/vms/VM-01.checkpoint is unchanged"),
            std::string::npos);
  EXPECT_NE(world.run_state(), "running");
  EXPECT_TRUE(world.quit());
}

INSTANTIATE_TEST_SUITE_P(Steps, OnTheWay,
                         testing::Values(Failing{"human-monitor-command", "no human-monitor-command"},
                                         Failing{"side.write_msix_table", "no side.write_msix_table"},
                                         Failing{"migrate-set-capabilities", "no migrate-set-capabilities"},
                                         Failing{"migrate-incoming", "no migrate-incoming"},
                                         Failing{"migration",
                                                 "QEMU does not read /var/lib/vms/VM-01.checkpoint: no room"},
                                         Failing{"side.check_pci", "no side.check_pci"},
                                         Failing{"side.go_on", "no side.go_on"}, Failing{"cont", "no cont"}));

TEST(RestoreTest, AQemuThatDiesIsSaid) {
  WaitingVm world("dies in migration");
  const auto report = world.restore();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("QEMU has gone"), std::string::npos) << report.error().message;
}

TEST(RestoreTest, ADaemonThatStopsWaitsForNoFile) {
  WaitingVm world("slow");
  const auto report = world.restore(FailingAdapterSide::saved(), VmWorld::kFile, true);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ECANCELED);
  EXPECT_NE(report.error().message.find("this pvrdmad stops; the QEMU that waited"), std::string::npos)
      << report.error().message;
  EXPECT_TRUE(world.quit());
}

TEST(RestoreTest, AVmThatRunsIsNotEnded) {
  WaitingVm world("side.resume");
  ASSERT_FALSE(world.restore());
  EXPECT_EQ(world.run_state(), "running");
  EXPECT_FALSE(world.quit());
}

TEST(RestoreTest, OnlyIntoAQemuThatWaits) {
  {
    WaitingVm running("", "running");
    EXPECT_NE(running.restore().error().message.find("its own VM is in state \"running\": start one with"),
              std::string::npos);
  }
  WaitingVm world;
  EXPECT_EQ(world.restore({}).error().message, "another state");
  EXPECT_EQ(world.restore(FailingAdapterSide::saved(), "relative").error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(world.run_state(), "inmigrate");
}

}  // namespace
}  // namespace pvrdma::motion
