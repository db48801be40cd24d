#include "motion/vmm_upgrade.h"

#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "base/unix_listener.h"
#include "motion/vm_world_fixture.h"

namespace pvrdma::motion {
namespace {

// A VmWorld with a second QEMU, to which the VM moves. The words for failures there begin with "new ".
class TwoQemus final : public VmWorld {
 public:
  explicit TwoQemus(const std::string& fails = {}, const std::string& run_state = "running")
      : VmWorld(fails, run_state), fails_(fails) {
    side().before_switch_over = [this] {
      EXPECT_NE(standing().in_old, "running");
      EXPECT_NE(standing().in_new, "running");
    };
    if (fails != "no cpr socket")
      cpr_ = UnixListener::listen(path("cpr"), {.what = "cpr", .mode = 0600, .backlog = 1}).value();
  }

  Result<UpgradeReport> upgrade() {
    return VmmUpgrade({"VM-01", path("qemu"), path("new")}, {.main = path("main"), .cpr = path("cpr")},
                      side())
        .run();
  }

  // The situation: which QEMU runs the VM, which one has the adapter, and what was left over.
  struct Standing {
    std::string in_old = "running";
    std::string in_new = "paused";
    bool is_switched = false;
    bool expects = false;
    std::string mode = "normal";
    bool old_quit = false;
    bool new_quit = false;
    int resumed = 0;
    friend bool operator==(const Standing&, const Standing&) = default;
    friend void PrintTo(const Standing& s, std::ostream* out) {
      *out << s.in_old << " " << s.in_new << " switched " << s.is_switched << " expects " << s.expects << " "
           << s.mode << " quit " << s.old_quit << s.new_quit << " resumed " << s.resumed;
    }
  };
  Standing standing() {
    const auto in_old = VmWorld::standing();
    const auto in_new = new_ ? new_->standing() : OneVmQemu::Standing{.run_state = "paused"};
    return {.in_old = in_old.run_state,
            .in_new = in_new.run_state,
            .is_switched = side().is_switched_over(),
            .expects = side().expects_successor(),
            .mode = in_old.mode,
            .old_quit = in_old.quit,
            .new_quit = in_new.quit,
            .resumed = side().resumed()};
  }

 private:
  void watch(const std::string& command, const vmm::Json&, const OneVmQemu::Standing& standing) override {
    if (command != "migrate") return;
    EXPECT_EQ(standing.mode, "cpr-transfer");
    if (fails_ == "migration") return;
    new_.emplace(path("new"), fails_.starts_with("new ") ? fails_.substr(4) : "", "paused", nullptr, 12);
    new_->set("paused", fails_ == "load" ? "failed" : "completed");
  }

  const std::string fails_;
  std::unique_ptr<UnixListener> cpr_;
  std::optional<OneVmQemu> new_;  // starts with the command "migrate" of the old one
};

TEST(VmmUpgradeTest, TheVmGoesOnInTheNewQemu) {
  TwoQemus world;
  const auto report = world.upgrade();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(world.standing(),
            (TwoQemus::Standing{"postmigrate", "running", true, false, "cpr-transfer", true, false, 1}));
  EXPECT_EQ(report->from.version, "11.1.3");
  EXPECT_EQ(report->to.version, "12.1.3");
  EXPECT_EQ(report->state_bytes, 1000u);
  EXPECT_GE(report->pause, report->restore);
}

TEST(VmmUpgradeTest, AVmThatIsPausedStaysPaused) {
  TwoQemus world("", "paused");
  const auto report = world.upgrade();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(world.standing().in_new, "paused");
  EXPECT_EQ(report->pause, Duration{});
}

struct FailingUpgrade {
  std::string what;
  std::string message;
  TwoQemus::Standing after{};
};

class UpgradeFails : public testing::TestWithParam<FailingUpgrade> {};

TEST_P(UpgradeFails, AndTheVmGoesOnInTheOldQemu) {
  TwoQemus world(GetParam().what);
  const auto report = world.upgrade();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find(GetParam().message), std::string::npos) << report.error().message;
  EXPECT_EQ(world.standing(), GetParam().after);
}

TwoQemus::Standing told_to_quit(int resumed = 0) {
  TwoQemus::Standing standing;
  standing.new_quit = true;
  standing.resumed = resumed;
  return standing;
}

INSTANTIATE_TEST_SUITE_P(
    Steps, UpgradeFails,
    testing::Values(
        FailingUpgrade{"query-status", "QEMU refuses query-status"},
        FailingUpgrade{"query-version", "QEMU refuses query-version"},
        FailingUpgrade{"query-pci", "no query-pci"}, FailingUpgrade{"no cpr socket", "no new QEMU waits at"},
        FailingUpgrade{"side.expect_successor", "no side.expect_successor"},
        FailingUpgrade{"migrate", "QEMU refuses migrate: no migrate; the VM goes on in the old QEMU"},
        FailingUpgrade{"migration",
                       "the transfer to the new QEMU failed: no room; the VM goes on in the old QEMU"},
        FailingUpgrade{"new dies", "QEMU has gone; the VM goes on in the old QEMU"},
        FailingUpgrade{"load", "the new QEMU cannot load the machine: no room; the VM goes on",
                       told_to_quit()},
        FailingUpgrade{"new query-version", "no query-version; the VM goes on", told_to_quit()},
        FailingUpgrade{"side.clients", "no side.clients; the VM goes on", told_to_quit()},
        FailingUpgrade{"its VMM leaves", "the VMM of adapter VM-01 has left: the VM is off; the VM goes on",
                       told_to_quit()},
        FailingUpgrade{"nobody came", "has not connected to the adapter VM-01: give it the same -device",
                       told_to_quit()},
        FailingUpgrade{"new query-pci", "no query-pci; the VM goes on", told_to_quit()},
        FailingUpgrade{"side.pci_image", "no side.pci_image; the VM goes on", told_to_quit()},
        FailingUpgrade{"new human-monitor-command", "no human-monitor-command; the VM goes on",
                       told_to_quit()},
        FailingUpgrade{"side.write_msix_table", "no side.write_msix_table; the VM goes on", told_to_quit()},
        FailingUpgrade{"side.check_pci", "no side.check_pci; the VM goes on", told_to_quit()},
        FailingUpgrade{"side.switch_over", "no side.switch_over; the VM goes on", told_to_quit()},
        FailingUpgrade{"new cont", "no cont; the VM goes on in the old QEMU", told_to_quit(1)}),
    name_of<FailingUpgrade>);

TEST(VmmUpgradeTest, WhatIsLeftToDoIsSaidWhenTheOldQemuDoesNotEnd) {
  TwoQemus world("quit");
  const auto report = world.upgrade();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("the VM goes on in the new QEMU (pid "), std::string::npos);
  EXPECT_NE(report.error().message.find("has to be ended by hand: QEMU refuses quit"), std::string::npos);
  EXPECT_EQ(world.standing().in_new, "running");
}

TEST(VmmUpgradeTest, WhatFailedOnTheWayBackIsSaidToo) {
  TwoQemus world("new cont, and back");
  const auto report = world.upgrade();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("QEMU refuses cont: no cont; going back to the old QEMU (pid "),
            std::string::npos)
      << report.error().message;
  EXPECT_NE(report.error().message.find(") failed: no switch back"), std::string::npos);
  EXPECT_EQ(world.standing().in_old, "running") << "without its adapter, but it runs";
  EXPECT_TRUE(world.standing().new_quit);
  EXPECT_FALSE(world.standing().expects);
}

TEST(VmmUpgradeTest, IsNothingForAVmThatStands) {
  TwoQemus world("", "shutdown");
  EXPECT_EQ(world.upgrade().error().message, "VM VM-01 is in state \"shutdown\": it must run, or be paused");
}

}  // namespace
}  // namespace pvrdma::motion
