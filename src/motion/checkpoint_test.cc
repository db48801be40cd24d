#include "motion/checkpoint.h"

#include <gtest/gtest.h>
#include <mutex>
#include <optional>
#include <ostream>
#include <unistd.h>

#include "motion/fake_adapter_side.h"
#include "vmm/fake_qemu.h"

namespace pvrdma::motion {
namespace {

using vmm::FakeQemu;
using vmm::Json;

constexpr const char* kFile = "/var/lib/vms/VM-01.checkpoint";

// A QEMU, its VM's adapter, and one thing that fails.
class World {
 public:
  explicit World(std::string fails = {}, std::string state = "running")
      : fails_(std::move(fails)),
        side_(fails_),
        path_(testing::TempDir() + "checkpoint_" + std::to_string(::getpid())) {
    standing_.run_state = std::move(state);
    qemu_.emplace(path_, [this](const std::string& command, const Json& arguments) {
      return answer(command, arguments);
    });
  }

  CheckpointWish wish() const { return {"VM-01", path_, kFile}; }
  FailingAdapterSide& side() { return side_; }
  static bool go_on(const vmm::MigrationStatus&) { return true; }
  // The next command to the monitor gets no answer; the connection ends.
  void hang_up() {
    const std::lock_guard lock(mutex_);
    hangs_up_ = true;
  }

  struct Standing {
    std::string run_state = "running";
    bool mapped_ram = false;
    std::uint64_t bandwidth = 134217728;
    bool quit = false;
    friend bool operator==(const Standing&, const Standing&) = default;
    friend void PrintTo(const Standing& s, std::ostream* out) {
      *out << s.run_state << " mapped " << s.mapped_ram << " bandwidth " << s.bandwidth << " quit " << s.quit;
    }
  };
  Standing standing() {
    const std::lock_guard lock(mutex_);
    return standing_;
  }

 private:
  std::optional<Json> answer(const std::string& command, const Json& arguments) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(hangs_up_, false)) return std::nullopt;
    if (fails_ == command) return FakeQemu::refusing("no " + command);
    if (command == "query-version")
      return FakeQemu::returning({{"qemu", {{"major", 11}, {"minor", 1}, {"micro", 3}}}});
    if (command == "query-status") return FakeQemu::returning({{"status", standing_.run_state}});
    if (command == "query-pci") return one_device();
    if (command == "query-migrate-parameters")
      return FakeQemu::returning({{"max-bandwidth", standing_.bandwidth}, {"downtime-limit", 300}});
    if (command == "migrate-set-parameters") standing_.bandwidth = arguments.at("max-bandwidth");
    if (command == "migrate-set-capabilities")
      standing_.mapped_ram = arguments.at("capabilities").at(0).at("state");
    if (command == "stop") standing_.run_state = "paused";
    if (command == "cont") standing_.run_state = "running";
    if (command == "quit") standing_.quit = true;
    if (command == "migrate") {
      EXPECT_EQ(arguments.at("uri"), std::string("file:") + kFile);
      EXPECT_TRUE(standing_.mapped_ram);
      EXPECT_EQ(standing_.bandwidth, 0);
      EXPECT_EQ(standing_.run_state, "paused");
      EXPECT_TRUE(side_.is_stopped());
      migration_ = "active";
    }
    if (command == "migrate_cancel" && migration_ == "active") migration_ = "cancelled";
    if (command == "query-migrate") return status();
    return FakeQemu::returning();
  }
  Json status() {
    if (migration_.empty()) return FakeQemu::returning();
    if (migration_ == "active" && fails_ != "slow") {
      migration_ = fails_ == "file" ? "failed" : "completed";
      standing_.run_state = "postmigrate";
    }
    return FakeQemu::returning({{"status", migration_},
                                {"error-desc", "no space left"},
                                {"ram", {{"total", 4096}, {"remaining", 1024}}}});
  }
  static Json one_device() {
    return FakeQemu::returning(
        Json::array({{{"bus", 0},
                      {"devices", Json::array({{{"bus", 0},
                                                {"slot", 16},
                                                {"function", 1},
                                                {"id", {{"vendor", 0x15ad}, {"device", 0x0820}}}}})}}}));
  }

  const std::string fails_;
  FailingAdapterSide side_;
  const std::string path_;
  std::mutex mutex_;
  Standing standing_;  // guarded, like the members below
  std::string migration_;
  bool hangs_up_ = false;
  std::optional<FakeQemu> qemu_;
};

TEST(CheckpointTest, TheVmIsWrittenAndEnds) {
  World world;
  Checkpoint checkpoint(world.wish(), world.side());
  const auto report = checkpoint.take(World::go_on);
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
  World world;
  {
    Checkpoint checkpoint(world.wish(), world.side());
    ASSERT_TRUE(checkpoint.take(World::go_on));
  }
  EXPECT_EQ(world.standing(), World::Standing{});
  EXPECT_FALSE(world.side().is_stopped());
}

TEST(CheckpointTest, AMonitorThatWasLostIsAskedAnew) {
  World world("slow");
  const auto report = Checkpoint(world.wish(), world.side()).take([&world](const vmm::MigrationStatus&) {
    world.hang_up();
    return true;
  });
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("; the VM goes on"), std::string::npos) << report.error().message;
  EXPECT_EQ(world.standing(), World::Standing{});
  EXPECT_FALSE(world.side().is_stopped());
}

TEST(CheckpointTest, AnAdapterThatDoesNotGoOnAtOnceIsAskedAgain) {
  World world("once side.go_on");
  {
    Checkpoint checkpoint(world.wish(), world.side());
    ASSERT_TRUE(checkpoint.take(World::go_on));
  }
  EXPECT_EQ(world.standing(), World::Standing{});
  EXPECT_FALSE(world.side().is_stopped());
}

TEST(CheckpointTest, AVmThatWasPausedIsPausedAgain) {
  World world("file", "paused");
  const auto report = Checkpoint(world.wish(), world.side()).take(World::go_on);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("; the VM is paused, as before"), std::string::npos);
  EXPECT_FALSE(world.side().is_stopped());
}

TEST(CheckpointTest, IsGivenUpWhenNobodyWantsItAnyMore) {
  World world("slow");
  int asked = 0;
  const auto report =
      Checkpoint(world.wish(), world.side()).take([&asked](const vmm::MigrationStatus& status) {
        EXPECT_EQ(status.remaining_bytes, 1024);
        return ++asked < 3;
      });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ECANCELED);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(world.standing(), World::Standing{});
}

struct Failing {
  const char* what;
  const char* message;
};

class CheckpointFails : public testing::TestWithParam<Failing> {};

TEST_P(CheckpointFails, AndTheVmGoesOn) {
  World world(GetParam().what);
  const auto report = Checkpoint(world.wish(), world.side()).take(World::go_on);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find(GetParam().message), std::string::npos) << report.error().message;
  EXPECT_EQ(world.standing(), World::Standing{});
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
                    Failing{"file",
                            "QEMU does not write /var/lib/vms/VM-01.checkpoint: it failed: no space left; "
                            "the VM goes on"}),
    [](const auto& one) {
      std::string name = one.param.what;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

TEST(CheckpointTest, OnlyOfAVmThatHasBegunIntoAFileThatQemuUnderstands) {
  {
    World off("", "inmigrate");
    EXPECT_EQ(Checkpoint(off.wish(), off.side()).take(World::go_on).error().message,
              "VM VM-01 is in state \"inmigrate\": it must run, or be paused");
  }
  World world;
  for (const char* file : {"VM-01", "/a,b", ""}) {
    CheckpointWish wish = world.wish();
    wish.file = file;
    EXPECT_EQ(Checkpoint(wish, world.side()).take(World::go_on).error().kind, ErrorKind::kInvalid) << file;
  }
  EXPECT_EQ(world.standing(), World::Standing{});
}

TEST(CheckpointTest, AQemuThatDoesNotEndIsNamed) {
  World world("quit");
  Checkpoint checkpoint(world.wish(), world.side());
  ASSERT_TRUE(checkpoint.take(World::go_on));
  const auto finished = checkpoint.finish();
  ASSERT_FALSE(finished);
  EXPECT_NE(finished.error().message.find("has to be ended by hand"), std::string::npos);
}

}  // namespace
}  // namespace pvrdma::motion
