#include "pvrdmad/shard_control.h"

#include <cerrno>

#include "api/vm_monitors.h"
#include "base/log.h"
#include "device/print_state.h"
#include "motion/restore.h"
#include "motion/vmm_upgrade.h"

namespace pvrdma::daemon {

Result<control::UpgradedVmm> ShardControl::upgrade_vmm(const control::UpgradeVmmWish& wish) {
  const auto socket = side_.socket(wish.adapter);
  if (!socket) return fail(socket.error().code == ENOENT ? ENXIO : EIO, socket.error().message);
  const api::VmMonitors places = api::monitors_beside(*socket);
  api::MonitorsInUse monitors = api::monitors_in_use(places);
  if (!wish.monitor.empty()) monitors.current = wish.monitor;
  if (!wish.new_monitor.empty()) monitors.next = wish.new_monitor;
  motion::VmmUpgrade upgrade({.adapter = wish.adapter,
                              .monitor = monitors.current,
                              .new_monitor = monitors.next,
                              .main_socket = places.main,
                              .cpr_socket = places.cpr},
                             side_);
  const auto report = upgrade.run();
  if (!report) {
    log::warn("adapter {}: its VM does not go on in a new QEMU: {}", wish.adapter, report.error().message);
    return Failure(report.error());
  }
  log::info("adapter {}: its VM goes on in QEMU {} (pid {}), before in QEMU {} (pid {}); it stood for {} us",
            wish.adapter, report->new_version, report->new_pid, report->old_version, report->old_pid,
            microseconds_of(report->pause));
  return control::UpgradedVmm{.vm = wish.adapter,
                              .from = {report->old_version, static_cast<std::uint32_t>(report->old_pid)},
                              .to = {report->new_version, static_cast<std::uint32_t>(report->new_pid)},
                              .pause_us = microseconds_of(report->pause),
                              .qemu_us = microseconds_of(report->qemu),
                              .restore_us = microseconds_of(report->restore),
                              .adapter_us = microseconds_of(report->handover),
                              .state_bytes = report->state_bytes};
}

Result<std::string> ShardControl::monitor_of(const std::string& vm, const std::string& said) {
  const auto socket = side_.socket(vm);
  if (!socket) return Failure(socket.error());
  if (!said.empty()) return said;
  return api::monitors_in_use(api::monitors_beside(*socket)).current;
}

Result<std::unique_ptr<ByteStream>> ShardControl::start_checkpoint(const control::CheckpointWish& wish) {
  auto monitor = monitor_of(wish.adapter, wish.monitor);
  if (!monitor) return Failure(std::move(monitor).error());
  return checkpoints_.start({.adapter = wish.adapter, .monitor = *std::move(monitor), .file = wish.file});
}

Result<control::RestoredVm> ShardControl::restore(const control::CheckpointWish& wish,
                                                  std::string_view state) {
  auto monitor = monitor_of(wish.adapter, wish.monitor);
  if (!monitor) return fail(monitor.error().code == ENOENT ? ENXIO : EIO, monitor.error().message);
  const auto bytes = std::as_bytes(std::span(state));
  const auto report = motion::Restore({.adapter = wish.adapter,
                                       .monitor = *std::move(monitor),
                                       .file = wish.file,
                                       .state = {bytes.begin(), bytes.end()}},
                                      side_, [this] { return stopping_.load(); })
                          .run();
  if (!report) {
    log::warn("adapter {}: its VM does not go on from {}: {}", wish.adapter, wish.file,
              report.error().message);
    return Failure(report.error());
  }
  log::info("adapter {}: its VM goes on from {} in QEMU {} (pid {}), after {} us", wish.adapter, wish.file,
            report->version, report->pid, microseconds_of(report->took));
  return control::RestoredVm{.vm = wish.adapter,
                             .qemu = {report->version, static_cast<std::uint32_t>(report->pid)},
                             .took_us = microseconds_of(report->took)};
}

namespace {

Failure no_cluster() {
  return fail(ENOENT, "this pvrdmad is no member of a cluster: there is no other host to go to");
}

}  // namespace

std::string ShardControl::print_state(std::string_view state) {
  return device::print_state(std::as_bytes(std::span(state)));
}

Result<control::MotionState> ShardControl::start_motion(const control::MotionWish& wish) {
  return motions_ != nullptr ? motions_->start(wish) : no_cluster();
}

Result<void> ShardControl::check_motion(const control::MotionWish& wish) {
  return motions_ != nullptr ? motions_->check(wish) : no_cluster();
}

std::vector<control::MotionState> ShardControl::list_motions() {
  return motions_ != nullptr ? motions_->list() : std::vector<control::MotionState>{};
}

Result<void> ShardControl::cancel_motion(const std::string& vm) {
  return motions_ != nullptr ? motions_->cancel(vm) : no_cluster();
}

}  // namespace pvrdma::daemon
