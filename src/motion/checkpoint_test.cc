#include "motion/checkpoint.h"

#include <gtest/gtest.h>
#include <string>

#include "motion/vm_world_fixture.h"

namespace pvrdma::motion {
namespace {

TEST(CheckpointTest, TheVmIsWrittenAndEnds) {
  VmWorld world;
  Checkpoint checkpoint(world.wish(), world.side());
  const auto report = checkpoint.take(VmWorld::go_on);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->qemu.version, "11.1.3");
  EXPECT_EQ(report->ram_bytes, 4096);
  EXPECT_EQ(checkpoint.take_state(), FailingAdapterSide::saved());
  EXPECT_EQ(world.standing().run_state, "postmigrate");
  EXPECT_TRUE(world.side().is_stopped());
  EXPECT_TRUE(checkpoint.finish());
  EXPECT_TRUE(world.standing().quit);
}

TEST(CheckpointTest, WhatIsNotFinishedIsAbandoned) {
  VmWorld world;
  {
    Checkpoint checkpoint(world.wish(), world.side());
    ASSERT_TRUE(checkpoint.take(VmWorld::go_on));
  }
  EXPECT_EQ(world.standing(), VmWorld::Standing{});
  EXPECT_FALSE(world.side().is_stopped());
}

TEST(CheckpointTest, AMonitorThatWasLostIsAskedAnew) {
  VmWorld world("slow");
  const auto report = Checkpoint(world.wish(), world.side()).take([&world](const vmm::MigrationStatus&) {
    world.hang_up();
    return true;
  });
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("; the VM goes on"), std::string::npos) << report.error().message;
  EXPECT_EQ(world.standing(), VmWorld::Standing{});
  EXPECT_FALSE(world.side().is_stopped());
}

TEST(CheckpointTest, AnAdapterThatDoesNotGoOnAtOnceIsAskedAgain) {
  VmWorld world("once side.go_on");
  {
    Checkpoint checkpoint(world.wish(), world.side());
    ASSERT_TRUE(checkpoint.take(VmWorld::go_on));
  }
  EXPECT_EQ(world.standing(), VmWorld::Standing{});
  EXPECT_FALSE(world.side().is_stopped());
}

TEST(CheckpointTest, AVmThatWasPausedIsPausedAgain) {
  VmWorld world("migration", "paused");
  const auto report = Checkpoint(world.wish(), world.side()).take(VmWorld::go_on);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("; the VM is paused, as before"), std::string::npos);
  EXPECT_FALSE(world.side().is_stopped());
}

TEST(CheckpointTest, IsGivenUpWhenNobodyWantsItAnyMore) {
  VmWorld world("slow");
  int asked = 0;
  const auto report =
      Checkpoint(world.wish(), world.side()).take([&asked](const vmm::MigrationStatus& status) {
        EXPECT_EQ(status.remaining_bytes, 1024);
        return ++asked < 3;
      });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ECANCELED);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(world.standing(), VmWorld::Standing{});
}

class CheckpointFails : public testing::TestWithParam<Failing> {};

TEST_P(CheckpointFails, AndTheVmGoesOn) {
  VmWorld world(GetParam().what);
  const auto report = Checkpoint(world.wish(), world.side()).take(VmWorld::go_on);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find(GetParam().message), std::string::npos) << report.error().message;
  EXPECT_EQ(world.standing(), VmWorld::Standing{});
  EXPECT_FALSE(world.side().is_stopped());
}

INSTANTIATE_TEST_SUITE_P(
    Steps, CheckpointFails,
    testing::Values(Failing{"query-version", "no query-version"}, Failing{"query-status", "no query-status"},
                    Failing{"query-pci", "no query-pci"},
                    Failing{"query-migrate-parameters", "no query-migrate-parameters"},
                    Failing{"stop", "no stop; the VM goes on"},
                    Failing{"side.stop", "no side.stop; the VM goes on"},
                    Failing{"side.pci_image", "no side.pci_image; the VM goes on"},
                    Failing{"side.save", "no side.save; the VM goes on"},
                    Failing{"migrate-set-capabilities", "no migrate-set-capabilities; the VM goes on"},
                    Failing{"migrate", "no migrate; the VM goes on"},
                    Failing{"migration",
                            "QEMU does not write /var/lib/vms/VM-01.checkpoint: it failed: no room; "
                            "the VM goes on"}),
    name_of<Failing>);

TEST(CheckpointTest, OnlyOfAVmThatHasBegunIntoAFileThatQemuUnderstands) {
  {
    VmWorld off("", "inmigrate");
    EXPECT_EQ(Checkpoint(off.wish(), off.side()).take(VmWorld::go_on).error().message,
              "VM VM-01 is in state \"inmigrate\": it must run, or be paused");
  }
  VmWorld world;
  for (const char* file : {"VM-01", "/a,b", ""}) {
    CheckpointWish wish = world.wish();
    wish.file = file;
    EXPECT_EQ(Checkpoint(wish, world.side()).take(VmWorld::go_on).error().kind, ErrorKind::kInvalid) << file;
  }
  EXPECT_EQ(world.standing(), VmWorld::Standing{});
}

TEST(CheckpointTest, AQemuThatHasGoneNeedsNobodysHand) {
  VmWorld world;
  Checkpoint checkpoint(world.wish(), world.side());
  ASSERT_TRUE(checkpoint.take(VmWorld::go_on));
  world.hang_up();
  EXPECT_TRUE(checkpoint.finish());
}

TEST(CheckpointTest, AQemuThatDoesNotEndIsNamed) {
  VmWorld world("quit");
  Checkpoint checkpoint(world.wish(), world.side());
  ASSERT_TRUE(checkpoint.take(VmWorld::go_on));
  const auto finished = checkpoint.finish();
  ASSERT_FALSE(finished);
  EXPECT_NE(finished.error().message.find("has to be ended by hand"), std::string::npos);
}

}  // namespace
}  // namespace pvrdma::motion
