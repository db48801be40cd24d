// VmWorld: a VM in one QEMU, its adapter, and one thing that fails.
#pragma once

#include <cctype>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "motion/checkpoint_service.h"
#include "motion/fake_adapter_side.h"
#include "vmm/fake_ports.h"
#include "vmm/fake_qemu.h"
#include "vmm/migration.h"

namespace pvrdma::motion {

// A QEMU whose VM has one PVRDMA adapter. A migration that it was told to do is complete when it is asked
// for the first time how far it is.
class OneVmQemu {
 public:
  using Json = vmm::Json;

  struct Standing {
    std::string run_state = "running";
    std::string mode = "normal";  // of migrations
    bool mapped_ram = false;
    std::uint64_t bandwidth = 134217728;
    bool quit = false;
    friend bool operator==(const Standing&, const Standing&) = default;
    friend void PrintTo(const Standing& s, std::ostream* out) {
      *out << s.run_state << " mode " << s.mode << " mapped " << s.mapped_ram << " bandwidth " << s.bandwidth
           << " quit " << s.quit;
    }
  };
  // Called before each command takes effect.
  using Watch =
      std::function<void(const std::string& command, const Json& arguments, const Standing& standing)>;

  // `fails`: the command that is refused; "migration": it fails; "slow": the migration never ends; "dies":
  // the QEMU dies at the first command; "dies in migration": when it is asked how far it is. Any other word:
  // no command fails here.
  OneVmQemu(std::string path, std::string fails, std::string run_state, Watch watch = nullptr,
            int major_version = 11)
      : path_(std::move(path)),
        fails_(std::move(fails)),
        watch_(std::move(watch)),
        major_version_(major_version) {
    standing_.run_state = std::move(run_state);
    qemu_.emplace(path_, [this](const std::string& command, const Json& arguments) {
      return answer(command, arguments);
    });
  }

  const std::string& path() const { return path_; }
  Standing standing() {
    const std::lock_guard lock(mutex_);
    return standing_;
  }
  // Changes the state, as another user of this QEMU would. `migration` is QEMU's word for it; empty: there
  // was none.
  void set(const std::string& run_state, const std::string& migration) {
    const std::lock_guard lock(mutex_);
    standing_.run_state = run_state;
    migration_ = migration;
  }
  // The next command to the monitor gets no answer; the connection ends.
  void hang_up() {
    const std::lock_guard lock(mutex_);
    hangs_up_ = true;
  }
  std::vector<std::string> commands() { return qemu_->commands(); }

 private:
  // "cont, and back" fails "cont" and something of the adapter.
  bool refuses(const std::string& command) const {
    return fails_ == command || fails_.starts_with(command + ",");
  }
  std::optional<Json> answer(const std::string& command, const Json& arguments) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(hangs_up_, false) || fails_ == "dies") return std::nullopt;
    if (refuses(command)) return vmm::FakeQemu::refusing("no " + command);
    if (watch_) watch_(command, arguments, standing_);
    if (command == "migrate") migrate("postmigrate");
    if (command == "migrate-incoming") migrate("paused");
    if (command == "query-migrate" && migration_ == "active" && fails_ == "dies in migration")
      return std::nullopt;
    change(command, arguments);
    return vmm::FakeQemu::returning(what_is_asked(command, arguments));
  }
  void migrate(std::string run_state_after) {
    migration_ = "active";
    run_state_after_ = std::move(run_state_after);
  }
  void change(const std::string& command, const Json& arguments) {
    if (command == "stop") standing_.run_state = "paused";
    if (command == "cont") standing_.run_state = "running";
    if (command == "quit") standing_.quit = true;
    if (command == "migrate_cancel" && migration_ == "active") migration_ = "cancelled";
    if (command == "migrate-set-parameters") {
      standing_.bandwidth = arguments.value("max-bandwidth", standing_.bandwidth);
      standing_.mode = arguments.value("mode", standing_.mode);
    }
    if (command == "migrate-set-capabilities") {
      const Json& capability = arguments.at("capabilities").at(0);
      if (capability.at("capability") == "mapped-ram") standing_.mapped_ram = capability.at("state");
    }
    if (command == "query-migrate" && migration_ == "active" && !run_state_after_.empty() &&
        fails_ != "slow") {
      migration_ = fails_ == "migration" ? "failed" : "completed";
      standing_.run_state = run_state_after_;
    }
  }
  Json what_is_asked(const std::string& command, const Json& arguments) {
    if (command == "query-version")
      return {{"qemu", {{"major", major_version_}, {"minor", 1}, {"micro", 3}}}};
    if (command == "query-status") return {{"status", standing_.run_state}};
    if (command == "query-migrate-parameters")
      return {{"max-bandwidth", standing_.bandwidth}, {"downtime-limit", 300}};
    if (command == "query-migrate" && !migration_.empty())
      return {
          {"status", migration_}, {"error-desc", "no room"}, {"ram", {{"total", 4096}, {"remaining", 1024}}}};
    if (command == "query-pci") {
      const Json device{
          {"bus", 0}, {"slot", 16}, {"function", 1}, {"id", {{"vendor", 0x15ad}, {"device", 0x0820}}}};
      return Json::array({{{"bus", 0}, {"devices", Json::array({device})}}});
    }
    if (command == "human-monitor-command")
      return ports_.answer(arguments.at("command-line").get<std::string>());
    return Json::object();
  }

  const std::string path_;
  const std::string fails_;
  const Watch watch_;
  const int major_version_;
  std::mutex mutex_;
  Standing standing_;  // guarded, like the members below
  std::string migration_;
  std::string run_state_after_;  // of the migration; empty: it is the test's
  bool hangs_up_ = false;
  vmm::FakePorts ports_;
  std::optional<vmm::FakeQemu> qemu_;
};

// A case of one thing that goes wrong: what VmWorld takes, and what the error says.
struct Failing {
  const char* what;
  const char* message;
};
// The name of such a case.
template <typename Case>
std::string name_of(const testing::TestParamInfo<Case>& one) {
  std::string name = one.param.what;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

class VmWorld {
 public:
  static constexpr const char* kFile = "/var/lib/vms/VM-01.checkpoint";
  using Standing = OneVmQemu::Standing;

  // `fails`: what OneVmQemu or FailingAdapterSide takes.
  explicit VmWorld(const std::string& fails = {}, const std::string& run_state = "running")
      : side_(fails),
        qemu_(path("qemu"), fails, run_state,
              [this](const std::string& command, const vmm::Json& arguments, const Standing& standing) {
                watch(command, arguments, standing);
              }) {}
  virtual ~VmWorld() = default;
  VmWorld(const VmWorld&) = delete;
  VmWorld& operator=(const VmWorld&) = delete;

  static std::string path(const std::string& what) {
    return testing::TempDir() + "world_" + std::to_string(::getpid()) + "." + what;
  }
  static bool go_on(const vmm::MigrationStatus&) { return true; }

  CheckpointWish wish() const { return {"VM-01", qemu_.path(), kFile}; }
  FailingAdapterSide& side() { return side_; }
  Standing standing() { return qemu_.standing(); }
  void hang_up() { qemu_.hang_up(); }

 protected:
  // Checks that adapter and QEMU are ready for a migration to or from a file, and for running again.
  virtual void watch(const std::string& command, const vmm::Json& arguments, const Standing& standing) {
    if (command == "cont") {
      EXPECT_FALSE(side_.is_stopped());
      EXPECT_FALSE(standing.mapped_ram) << "no other migration of this QEMU would work";
    }
    const bool reads = command == "migrate-incoming";
    if (!reads && command != "migrate") return;
    EXPECT_EQ(arguments.at("uri"), std::string("file:") + kFile);
    EXPECT_TRUE(standing.mapped_ram);
    EXPECT_TRUE(side_.is_stopped());
    if (reads) return;
    EXPECT_EQ(standing.bandwidth, 0);
    EXPECT_EQ(standing.run_state, "paused");
  }

  FailingAdapterSide side_;
  OneVmQemu qemu_;
};

}  // namespace pvrdma::motion
