#include "motion/vmm_upgrade.h"

#include <cerrno>
#include <fmt/core.h>
#include <sys/stat.h>
#include <thread>
#include <utility>

#include "motion/qemu.h"

namespace pvrdma::motion {
namespace {

using vmm::Json;
using vmm::Monitor;

constexpr Duration kTransferPollInterval = std::chrono::milliseconds(1);

Json socket_channel(const char* type, const std::string& path) {
  return {{"channel-type", type}, {"addr", {{"transport", "socket"}, {"type", "unix"}, {"path", path}}}};
}

// The main socket does not exist before the machine does. This does not connect, because the new QEMU takes
// its first client for the old QEMU.
Result<void> check_socket(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) return {};
  return fail(ErrorKind::kConflict,
              fmt::format("no new QEMU waits at {}: start it with the arguments that pvrdmactl vm "
                          "qemu-args --incoming prints",
                          path));
}

}  // namespace

Result<UpgradeReport> VmmUpgrade::run() {
  for (const auto step :
       {&VmmUpgrade::open, &VmmUpgrade::transfer, &VmmUpgrade::hand_over, &VmmUpgrade::go_on}) {
    if (auto done = (this->*step)(); !done) return Failure(undo(std::move(done).error()));
  }
  if (auto left = leave(); !left) return Failure(std::move(left).error());
  return report_;
}

Result<void> VmmUpgrade::open() {
  auto qemu = open_qemu(wish_.monitor);
  if (!qemu) return Failure(std::move(qemu).error());
  if (auto settled = check_settled(*qemu, wish_.adapter); !settled) return settled;
  report_.vm = wish_.adapter;
  was_running_ = qemu->state == "running";
  old_ = std::move(qemu->monitor);
  report_.from.pid = static_cast<std::uint32_t>(old_->pid());
  report_.from.version = std::move(qemu->version);
  place_ = qemu->place;
  if (auto there = check_socket(sockets_.cpr); !there) return there;
  if (auto expected = side_.expect_successor(wish_.adapter); !expected) return expected;
  expecting_ = true;
  return {};
}

Result<void> VmmUpgrade::transfer() {
  const auto mode = old_->execute("migrate-set-parameters", {{"mode", "cpr-transfer"}});
  if (!mode) return Failure(mode.error());
  began_ = true;
  ran_last_ = Instant::now();
  const auto begun =
      old_->execute("migrate", {{"channels", Json::array({socket_channel("main", sockets_.main),
                                                          socket_channel("cpr", sockets_.cpr)})}});
  if (!begun) return Failure(begun.error());
  return wait_for_new();
}

// Waits until the old QEMU has given everything away, and the new one has it.
Result<void> VmmUpgrade::wait_for_new() {
  const Instant until = Instant::now() + kPatience;
  std::string in_old, in_new;
  while (in_old != "completed" || in_new != "completed") {
    if (Instant::now() >= until) {
      return fail(
          ETIMEDOUT,
          fmt::format(
              "the transfer takes longer than {} s: it is \"{}\" in the old QEMU, \"{}\" in the new one",
              std::chrono::duration_cast<std::chrono::seconds>(kPatience).count(), in_old, in_new));
    }
    const auto state = vmm::run_state(*old_);
    if (!state) return Failure(state.error());
    if (*state == "running") ran_last_ = Instant::now();
    const auto migration = vmm::migration_status(*old_);
    if (!migration) return Failure(migration.error());
    in_old = migration->status;
    if (vmm::has_ended(in_old) && in_old != "completed") {
      return fail(ECANCELED, fmt::format("the transfer to the new QEMU {}: {}", in_old, migration->why));
    }
    if (new_ == nullptr) {
      if (auto monitor = Monitor::connect(wish_.new_monitor, Instant{})) {
        new_ = *std::move(monitor);
      } else if (monitor.error().code != ENOENT && monitor.error().code != ECONNREFUSED) {
        return Failure(std::move(monitor).error());
      }
    } else {
      const auto arrived = vmm::migration_status(*new_);
      if (!arrived) return Failure(arrived.error());
      in_new = arrived->status;
      if (in_new == "failed")
        return fail(ECANCELED, fmt::format("the new QEMU cannot load the machine: {}", arrived->why));
    }
    std::this_thread::sleep_for(kTransferPollInterval);
  }
  report_.qemu = Instant::now() - ran_last_;
  report_.to.pid = static_cast<std::uint32_t>(new_->pid());
  auto version = vmm::version_of(*new_);
  if (!version) return Failure(std::move(version).error());
  report_.to.version = *std::move(version);
  return {};
}

Result<void> VmmUpgrade::hand_over() {
  const Instant began = Instant::now();
  const auto clients = side_.clients(wish_.adapter);
  if (!clients) return Failure(clients.error());
  if (clients->successor == AdapterSide::Successor::kNone)
    return fail(EPIPE, fmt::format("the VMM of adapter {} has left: the VM is off", wish_.adapter));
  if (clients->successor == AdapterSide::Successor::kExpected) {
    return fail(ENODEV,
                fmt::format("the new QEMU has not connected to the adapter {}: give it the same -device "
                            "vfio-user-pci",
                            wish_.adapter));
  }
  const auto place = vmm::find_device(*new_);
  if (!place) return Failure(place.error());
  if (*place != place_)
    return fail(ErrorKind::kConflict, "the new QEMU has the PVRDMA device at another PCI address");
  const auto image = side_.pci_image(wish_.adapter);
  if (!image) return Failure(image.error());
  image_ = *image;
  auto restored = restore_in(*new_);
  if (restored) restored = side_.check_pci(wish_.adapter, AdapterSide::Vmm::kSuccessor, image_);
  if (!restored) return restored;
  report_.restore = Instant::now() - began;
  const auto switched = side_.switch_over(wish_.adapter);
  if (!switched) return Failure(switched.error());
  switched_ = true;
  report_.adapter = switched->took;
  report_.state_bytes = switched->state_bytes;
  silenced_ = true;
  return vmm::disable_vectors(*old_, place_);
}

// Restores the PCI state in the QEMU that does not have the adapter.
Result<void> VmmUpgrade::restore_in(Monitor& monitor) {
  return vmm::restore(monitor, place_, image_, [this] {
    return side_.write_msix_table(wish_.adapter, AdapterSide::Vmm::kSuccessor, image_);
  });
}

Result<void> VmmUpgrade::go_on() {
  if (was_running_) {
    const auto continued = new_->execute("cont");
    if (!continued) return Failure(continued.error());
  }
  report_.pause = was_running_ ? Instant::now() - ran_last_ : Duration{};
  return {};
}

// The VM has a new QEMU: nothing is undone from here on.
Result<void> VmmUpgrade::leave() {
  const auto resumed = side_.resume(wish_.adapter);
  const auto left = quit(old_);
  const auto ended = side_.end_successor(wish_.adapter);
  std::string why;
  if (!resumed) why = resumed.error().message;
  if (!ended && why.empty()) why = ended.error().message;
  if (!left && why.empty()) {
    why = fmt::format("the old one (pid {}) has to be ended by hand: {}", report_.from.pid,
                      left.error().message);
  }
  if (why.empty()) return {};
  return fail(EIO, fmt::format("the VM goes on in the new QEMU (pid {}), but {}", report_.to.pid, why));
}

Error VmmUpgrade::undo(Error why) {
  if (old_ == nullptr || !expecting_) return why;
  if (const auto undone = undo_all(); undone) {
    why.message += fmt::format("; the VM {} in the old QEMU", was_running_ ? "goes on" : "is");
  } else {
    why.message += fmt::format("; going back to the old QEMU (pid {}) failed: {}", report_.from.pid,
                               undone.error().message);
  }
  return why;
}

// Tries each step, even if the one before it failed.
Result<void> VmmUpgrade::undo_all() {
  Result<void> outcome;
  const auto note = [&outcome](const auto& done) {
    if (!done && outcome) outcome = Failure(done.error());
  };
  static_cast<void>(renew(old_));
  if (silenced_) note(restore_in(*old_));
  if (switched_) note(side_.switch_over(wish_.adapter));
  if (new_ != nullptr) static_cast<void>(new_->execute("quit"));
  if (began_) {
    note(vmm::cancel_migration(*old_, Instant::now() + kPatience));
    note(old_->execute("migrate-set-parameters", {{"mode", "normal"}}));
    static_cast<void>(renew(old_));
    if (was_running_) note(continue_vm(*old_));
  }
  if (switched_) note(side_.resume(wish_.adapter));
  note(side_.end_successor(wish_.adapter));
  return outcome;
}

}  // namespace pvrdma::motion
