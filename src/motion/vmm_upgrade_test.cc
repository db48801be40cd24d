#include "motion/vmm_upgrade.h"

#include <gtest/gtest.h>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <unistd.h>

#include "motion/fake_adapter_side.h"
#include "vmm/fake_qemu.h"

namespace pvrdma::motion {
namespace {

using vmm::FakeQemu;
using vmm::Json;

// Two QEMUs, the adapter between them, and one thing that fails.
class World final : public FakeAdapterSide {
 public:
  explicit World(std::string fails = {}, std::string state = "running") : fails_(std::move(fails)) {
    standing_.in_old = std::move(state);
    old_.emplace(path("old"), [this](const std::string& command, const Json& arguments) {
      return answer_of_old(command, arguments);
    });
    if (fails_ != "no cpr socket")
      cpr_ = UnixListener::listen(path("cpr"), {.what = "cpr", .mode = 0600, .backlog = 1}).value();
  }

  Result<UpgradeReport> upgrade() {
    return VmmUpgrade({"VM-01", path("old"), path("new")}, {{}, path("main"), path("cpr")}, *this).run();
  }
  static std::string path(const char* what) {
    return testing::TempDir() + "vmm_upgrade_" + std::to_string(::getpid()) + "." + what;
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
    const std::lock_guard lock(mutex_);
    return standing_;
  }

 private:
  std::optional<Json> answer_of_old(const std::string& command, const Json& arguments) {
    const std::lock_guard lock(mutex_);
    if (fails_ == command) return FakeQemu::refusing("no " + command);
    if (command == "query-version") return version(10, 0, 2);
    if (command == "query-status") return FakeQemu::returning({{"status", standing_.in_old}});
    if (command == "query-migrate") {
      if (migration_.empty()) return FakeQemu::returning();
      return FakeQemu::returning({{"status", migration_}, {"error-desc", "the channel broke"}});
    }
    if (command == "migrate-set-parameters") standing_.mode = arguments.at("mode");
    if (command == "migrate") {
      EXPECT_EQ(standing_.mode, "cpr-transfer");
      if (fails_ == "transfer") {
        migration_ = "failed";
      } else {
        migration_ = "completed";
        standing_.in_old = "postmigrate";
        new_.emplace(path("new"), [this](const std::string& asked, const Json& arguments_of_it) {
          return answer_of_new(asked, arguments_of_it);
        });
      }
    }
    if (command == "query-pci") return pci();
    if (command == "human-monitor-command") {
      if (fails_ == "old ports") return FakeQemu::refusing("no ports");
      return ports(arguments);
    }
    if (command == "cont") standing_.in_old = "running";
    if (command == "quit") standing_.old_quit = true;
    return FakeQemu::returning();
  }
  std::optional<Json> answer_of_new(const std::string& command, const Json& arguments) {
    const std::lock_guard lock(mutex_);
    if (fails_ == "new dies") return std::nullopt;
    if (fails_.starts_with("new " + command)) return FakeQemu::refusing("no " + command);
    if (command == "query-version") return version(11, 1, 3);
    if (command == "query-status") return FakeQemu::returning({{"status", standing_.in_new}});
    if (command == "query-migrate")
      return FakeQemu::returning(
          {{"status", fails_ == "load" ? "failed" : "completed"}, {"error-desc", "no room"}});
    if (command == "query-pci") return pci();
    if (command == "human-monitor-command") return ports(arguments);
    if (command == "cont") standing_.in_new = "running";
    if (command == "quit") standing_.new_quit = true;
    return FakeQemu::returning();
  }
  static Json pci() {
    return FakeQemu::returning(
        Json::array({{{"bus", 0},
                      {"devices", Json::array({{{"bus", 0},
                                                {"slot", 16},
                                                {"function", 1},
                                                {"id", {{"vendor", 0x15ad}, {"device", 0x0820}}}}})}}}));
  }
  static Json ports(const Json& arguments) {
    const bool reads = arguments.at("command-line").get<std::string>().starts_with("i ");
    return FakeQemu::returning(reads ? "portl[0x0cf8] = 0x0" : "");
  }
  static Json version(int major, int minor, int micro) {
    return FakeQemu::returning({{"qemu", {{"major", major}, {"minor", minor}, {"micro", micro}}}});
  }

  Result<void> act(std::string_view call) override {
    const std::lock_guard lock(mutex_);
    if (call == "resume") ++standing_.resumed;
    if (call == "end_successor") standing_.expects = false;
    if (fails_ == call) return fail(EIO, "no " + std::string(call));
    if (call == "expect_successor") standing_.expects = true;
    if (call == "switch_over") {
      EXPECT_NE(standing_.in_old, "running");
      EXPECT_NE(standing_.in_new, "running");
      if (standing_.is_switched && fails_ == "new cont, and back") return fail(EIO, "no switch back");
      standing_.is_switched = !standing_.is_switched;
    }
    return {};
  }
  Result<Clients> clients(const std::string& adapter) override {
    auto clients = FakeAdapterSide::clients(adapter);
    if (clients) clients->successor = fails_ == "nobody came" ? Successor::kExpected : Successor::kIsHere;
    if (clients && fails_ == "its VMM leaves") clients->successor = Successor::kNone;
    return clients;
  }

  const std::string fails_;
  std::mutex mutex_;
  Standing standing_;      // guarded, like the members below
  std::string migration_;  // empty: no migration has run
  std::unique_ptr<UnixListener> cpr_;
  std::optional<FakeQemu> old_;
  std::optional<FakeQemu> new_;
};

TEST(VmmUpgradeTest, TheVmGoesOnInTheNewQemu) {
  World world;
  const auto report = world.upgrade();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(world.standing(),
            (World::Standing{"postmigrate", "running", true, false, "cpr-transfer", true, false, 1}));
  EXPECT_EQ(report->from.version, "10.0.2");
  EXPECT_EQ(report->to.version, "11.1.3");
  EXPECT_EQ(report->state_bytes, 1000u);
  EXPECT_GE(report->pause, report->restore);
}

TEST(VmmUpgradeTest, AVmThatIsPausedStaysPaused) {
  World world("", "paused");
  const auto report = world.upgrade();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(world.standing().in_new, "paused");
  EXPECT_EQ(report->pause, Duration{});
}

struct Failing {
  std::string what;
  std::string message;
  World::Standing after{};
};

class Fails : public testing::TestWithParam<Failing> {};

TEST_P(Fails, AndTheVmGoesOnInTheOldQemu) {
  World world(GetParam().what);
  const auto report = world.upgrade();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find(GetParam().message), std::string::npos) << report.error().message;
  EXPECT_EQ(world.standing(), GetParam().after);
}

World::Standing told_to_quit(int resumed = 0) {
  World::Standing standing;
  standing.new_quit = true;
  standing.resumed = resumed;
  return standing;
}

INSTANTIATE_TEST_SUITE_P(
    Steps, Fails,
    testing::Values(
        Failing{"query-status", "QEMU refuses query-status"},
        Failing{"query-version", "QEMU refuses query-version"}, Failing{"query-pci", "no query-pci"},
        Failing{"no cpr socket", "no new QEMU waits at"}, Failing{"expect_successor", "no expect_successor"},
        Failing{"migrate", "QEMU refuses migrate: no migrate; the VM goes on in the old QEMU"},
        Failing{"transfer",
                "the transfer to the new QEMU failed: the channel broke; the VM goes on in the old QEMU"},
        Failing{"new dies", "QEMU has gone; the VM goes on in the old QEMU"},
        Failing{"load", "the new QEMU cannot load the machine: no room; the VM goes on", told_to_quit()},
        Failing{"new query-version", "no query-version; the VM goes on", told_to_quit()},
        Failing{"clients", "no clients; the VM goes on", told_to_quit()},
        Failing{"its VMM leaves", "the VMM of adapter VM-01 has left: the VM is off; the VM goes on",
                told_to_quit()},
        Failing{"nobody came", "has not connected to the adapter VM-01: give it the same -device",
                told_to_quit()},
        Failing{"new query-pci", "no query-pci; the VM goes on", told_to_quit()},
        Failing{"pci_image", "no pci_image; the VM goes on", told_to_quit()},
        Failing{"new human-monitor-command", "no human-monitor-command; the VM goes on", told_to_quit()},
        Failing{"write_msix_table", "no write_msix_table; the VM goes on", told_to_quit()},
        Failing{"check_pci", "no check_pci; the VM goes on", told_to_quit()},
        Failing{"switch_over", "no switch_over; the VM goes on", told_to_quit()},
        Failing{"new cont", "no cont; the VM goes on in the old QEMU", told_to_quit(1)}),
    [](const auto& one) {
      std::string name = one.param.what;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

TEST(VmmUpgradeTest, WhatIsLeftToDoIsSaidWhenTheOldQemuDoesNotEnd) {
  World world("quit");
  const auto report = world.upgrade();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("the VM goes on in the new QEMU (pid "), std::string::npos);
  EXPECT_NE(report.error().message.find("has to be ended by hand: QEMU refuses quit"), std::string::npos);
  EXPECT_EQ(world.standing().in_new, "running");
}

TEST(VmmUpgradeTest, WhatFailedOnTheWayBackIsSaidToo) {
  World world("new cont, and back");
  const auto report = world.upgrade();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("QEMU refuses cont: no cont; going back to the old QEMU (pid "),
            std::string::npos)
      << report.error().message;
  EXPECT_NE(report.error().message.find("): no switch back"), std::string::npos);
  EXPECT_EQ(world.standing().in_old, "running") << "without its adapter, but it runs";
  EXPECT_TRUE(world.standing().new_quit);
  EXPECT_FALSE(world.standing().expects);
}

TEST(VmmUpgradeTest, IsNothingForAVmThatStands) {
  World world("", "shutdown");
  EXPECT_EQ(world.upgrade().error().message, "VM VM-01 is in state \"shutdown\": it must run, or be paused");
}

}  // namespace
}  // namespace pvrdma::motion
