#include "motion/restore.h"

#include <gtest/gtest.h>
#include <mutex>
#include <optional>
#include <unistd.h>

#include "motion/fake_adapter_side.h"
#include "vmm/fake_qemu.h"

namespace pvrdma::motion {
namespace {

using vmm::FakeQemu;
using vmm::Json;

constexpr const char* kFile = "/var/lib/vms/VM-01.checkpoint";

// A QEMU that waits, its adapter, and one thing that fails.
class World {
 public:
  explicit World(std::string fails = {}, std::string state = "inmigrate")
      : fails_(std::move(fails)),
        side_(fails_),
        path_(testing::TempDir() + "restore_" + std::to_string(::getpid())),
        run_state_(std::move(state)) {
    qemu_.emplace(path_, [this](const std::string& command, const Json& arguments) {
      return answer(command, arguments);
    });
  }

  Result<RestoreReport> restore(std::vector<std::byte> state = FailingAdapterSide::saved(),
                                std::string file = kFile, bool stopping = false) {
    return Restore({"VM-01", path_, std::move(file)}, std::move(state), side_,
                   [stopping] { return stopping; })
        .run();
  }
  FailingAdapterSide& side() { return side_; }
  std::string run_state() {
    const std::lock_guard lock(mutex_);
    return run_state_;
  }
  bool quit() {
    const std::lock_guard lock(mutex_);
    return quit_;
  }

 private:
  std::optional<Json> answer(const std::string& command, const Json& arguments) {
    const std::lock_guard lock(mutex_);
    if (fails_ == command) return FakeQemu::refusing("no " + command);
    if (command == "query-version")
      return FakeQemu::returning({{"qemu", {{"major", 11}, {"minor", 1}, {"micro", 3}}}});
    if (command == "query-status") return FakeQemu::returning({{"status", run_state_}});
    if (command == "query-pci") {
      return FakeQemu::returning(
          Json::array({{{"bus", 0},
                        {"devices", Json::array({{{"bus", 0},
                                                  {"slot", 16},
                                                  {"function", 1},
                                                  {"id", {{"vendor", 0x15ad}, {"device", 0x0820}}}}})}}}));
    }
    if (command == "human-monitor-command") {
      const bool reads = arguments.at("command-line").get<std::string>().starts_with("i ");
      return FakeQemu::returning(reads ? "portl[0x0cf8] = 0x0" : "");
    }
    if (command == "migrate-set-capabilities") mapped_ram_ = arguments.at("capabilities").at(0).at("state");
    if (command == "migrate-incoming") {
      EXPECT_EQ(arguments.at("uri"), std::string("file:") + kFile);
      EXPECT_TRUE(mapped_ram_);
      EXPECT_TRUE(side_.is_stopped());
      migration_ = "active";
    }
    if (command == "query-migrate") {
      if (migration_.empty()) return FakeQemu::returning();
      if (fails_ == "QEMU dies") return std::nullopt;
      if (fails_ == "slow") return FakeQemu::returning({{"status", migration_}});
      migration_ = fails_ == "file" ? "failed" : "completed";
      run_state_ = "paused";
      return FakeQemu::returning({{"status", migration_}, {"error-desc", "no such file"}});
    }
    if (command == "cont") {
      EXPECT_FALSE(side_.is_stopped());
      EXPECT_FALSE(mapped_ram_) << "no other migration of this QEMU would work";
      run_state_ = "running";
    }
    if (command == "quit") quit_ = true;
    return FakeQemu::returning();
  }

  const std::string fails_;
  FailingAdapterSide side_;
  const std::string path_;
  std::mutex mutex_;
  std::string run_state_;  // guarded, like the members below
  std::string migration_;
  bool mapped_ram_ = false;
  bool quit_ = false;
  std::optional<FakeQemu> qemu_;
};

TEST(RestoreTest, TheVmGoesOn) {
  World world;
  const auto report = world.restore();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->qemu.version, "11.1.3");
  EXPECT_EQ(world.run_state(), "running");
  EXPECT_FALSE(world.side().is_stopped());
  EXPECT_EQ(world.side().resumed(), 1);
  EXPECT_FALSE(world.quit());
}

struct Failing {
  const char* what;
  const char* message;
};

class BeforeAnythingChanged : public testing::TestWithParam<Failing> {};

TEST_P(BeforeAnythingChanged, TheQemuGoesOnWaiting) {
  World world(GetParam().what);
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
  World world(GetParam().what);
  const auto report = world.restore();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find(GetParam().message), std::string::npos) << report.error().message;
  EXPECT_NE(report.error().message.find("was ended, and /var/lib/vms/VM-01.checkpoint is unchanged"),
            std::string::npos);
  EXPECT_NE(world.run_state(), "running");
  EXPECT_TRUE(world.quit());
}

INSTANTIATE_TEST_SUITE_P(
    Steps, OnTheWay,
    testing::Values(Failing{"human-monitor-command", "no human-monitor-command"},
                    Failing{"side.write_msix_table", "no side.write_msix_table"},
                    Failing{"migrate-set-capabilities", "no migrate-set-capabilities"},
                    Failing{"migrate-incoming", "no migrate-incoming"},
                    Failing{"file", "QEMU does not read /var/lib/vms/VM-01.checkpoint: no such file"},
                    Failing{"side.check_pci", "no side.check_pci"}, Failing{"side.go_on", "no side.go_on"},
                    Failing{"cont", "no cont"}));

TEST(RestoreTest, AQemuThatDiesIsSaid) {
  World world("QEMU dies");
  const auto report = world.restore();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("QEMU has gone"), std::string::npos) << report.error().message;
}

TEST(RestoreTest, ADaemonThatStopsWaitsForNoFile) {
  World world("slow");
  const auto report = world.restore(FailingAdapterSide::saved(), kFile, true);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ECANCELED);
  EXPECT_NE(report.error().message.find("this pvrdmad stops; the QEMU that waited"), std::string::npos)
      << report.error().message;
  EXPECT_TRUE(world.quit());
}

TEST(RestoreTest, AVmThatRunsIsNotEnded) {
  World world("side.resume");
  ASSERT_FALSE(world.restore());
  EXPECT_EQ(world.run_state(), "running");
  EXPECT_FALSE(world.quit());
}

TEST(RestoreTest, OnlyIntoAQemuThatWaits) {
  {
    World running("", "running");
    EXPECT_NE(running.restore().error().message.find("its own is in state \"running\": start one with"),
              std::string::npos);
  }
  World world;
  EXPECT_EQ(world.restore({}).error().message, "another state");
  EXPECT_EQ(world.restore(FailingAdapterSide::saved(), "relative").error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(world.run_state(), "inmigrate");
}

}  // namespace
}  // namespace pvrdma::motion
