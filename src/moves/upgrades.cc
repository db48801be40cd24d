#include "moves/upgrades.h"

#include <utility>

#include "base/events.h"
#include "motion/vmm_upgrade.h"
#include "moves/as_conflict.h"
#include "moves/motion_event.h"
#include "vmm/vm_monitors.h"

namespace pvrdma::moves {

Result<motion::UpgradeReport> Upgrades::upgrade(const motion::UpgradeWish& wish) {
  if (auto stays = check_stays_(wish.adapter); !stays) return Failure(std::move(stays).error());
  auto socket = side_.socket(wish.adapter);
  if (!socket) return Failure(std::move(socket).error());
  vmm::VmMonitors places = vmm::monitors_beside(*socket);
  vmm::MonitorsInUse monitors = vmm::monitors_in_use(places);
  motion::UpgradeWish complete = wish;
  if (complete.monitor.empty()) complete.monitor = std::move(monitors.current);
  if (complete.new_monitor.empty()) complete.new_monitor = std::move(monitors.next);
  auto report = motion::VmmUpgrade(std::move(complete), std::move(places), side_).run();
  if (!report) {
    events::tell(log::Level::kWarn, motion_of(wish.adapter),
                 "adapter {}: its VM does not go on in a new QEMU: {}", wish.adapter, report.error().message);
    return Failure(as_conflict(std::move(report).error()));
  }
  events::tell(
      log::Level::kInfo, motion_of(wish.adapter),
      "adapter {}: its VM goes on in QEMU {} (pid {}), before in QEMU {} (pid {}); it was paused for {} us",
      wish.adapter, report->to.version, report->to.pid, report->from.version, report->from.pid,
      microseconds_of(report->pause));
  return report;
}

}  // namespace pvrdma::moves
