#include "motion/qemu.h"

#include <cerrno>
#include <fmt/core.h>
#include <thread>
#include <utility>

namespace pvrdma::motion {
namespace {

constexpr Duration kContinuePause = std::chrono::milliseconds(100);

// Whether the error of a monitor that worked, or of a new connection, means that no QEMU is at its other end.
bool has_gone(const Error& error) {
  return error.code == EPIPE || error.code == ENOENT || error.code == ECONNREFUSED;
}

}  // namespace

Result<Qemu> open_qemu(const std::string& monitor) {
  Qemu qemu;
  auto opened = vmm::Monitor::connect(monitor, Instant{});
  if (!opened) return Failure(std::move(opened).error());
  qemu.monitor = *std::move(opened);
  auto version = vmm::version_of(*qemu.monitor);
  if (!version) return Failure(std::move(version).error());
  qemu.version = *std::move(version);
  auto state = vmm::run_state(*qemu.monitor);
  if (!state) return Failure(std::move(state).error());
  qemu.state = *std::move(state);
  auto migration = vmm::migration_status(*qemu.monitor);
  if (!migration) return Failure(std::move(migration).error());
  qemu.migration = *std::move(migration);
  const auto place = vmm::find_device(*qemu.monitor);
  if (!place) return Failure(place.error());
  qemu.place = *place;
  return qemu;
}

Result<void> check_settled(const Qemu& qemu, const std::string& vm) {
  if (qemu.state != "running" && qemu.state != "paused") {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} is in state \"{}\": it must run, or be paused", vm, qemu.state));
  }
  if (vmm::has_ended(qemu.migration.status)) return {};
  return fail(ErrorKind::kConflict,
              fmt::format("the QEMU of VM {} migrates already (\"{}\"): wait until that is over", vm,
                          qemu.migration.status));
}

Result<void> check_waits(const Qemu& qemu, const std::string& vm) {
  if (qemu.state == "inmigrate" && qemu.migration.status == "none") return {};
  return fail(ErrorKind::kConflict,
              fmt::format("the QEMU at {} does not wait for a VM: its own VM is in state \"{}\": start one "
                          "with the arguments that pvrdmactl vm qemu-args {} --restore prints",
                          qemu.monitor->path(), qemu.state, vm));
}

Result<void> renew(std::unique_ptr<vmm::Monitor>& monitor) {
  if (monitor->works()) return {};
  auto renewed = vmm::Monitor::connect(monitor->path(), Instant{});
  if (!renewed) return Failure(std::move(renewed).error());
  monitor = *std::move(renewed);
  return {};
}

Result<void> quit(std::unique_ptr<vmm::Monitor>& monitor) {
  if (auto works = renew(monitor); !works) return has_gone(works.error()) ? Result<void>{} : works;
  const auto ended = monitor->execute("quit");
  return ended || has_gone(ended.error()) ? Result<void>{} : Failure(ended.error());
}

std::string end_qemu(std::unique_ptr<vmm::Monitor>& monitor) {
  const pid_t pid = monitor->pid();
  const auto ended = quit(monitor);
  const std::string qemu = fmt::format("the QEMU that waited for the VM (pid {})", pid);
  if (ended) return qemu + " was ended";
  return fmt::format("{} has to be ended by hand: {}", qemu, ended.error().message);
}

Result<void> continue_vm(vmm::Monitor& monitor) {
  const auto state = vmm::run_state(monitor);
  if (!state) return Failure(state.error());
  if (*state == "running") return {};
  const Instant until = Instant::now() + kContinuePatience;
  while (true) {
    const auto continued = monitor.execute("cont");
    if (continued) return {};
    if (continued.error().code != EREMOTEIO || Instant::now() >= until) return Failure(continued.error());
    std::this_thread::sleep_for(kContinuePause);
  }
}

}  // namespace pvrdma::motion
