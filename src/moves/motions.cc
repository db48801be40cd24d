#include "moves/motions.h"

#include <condition_variable>
#include <fmt/core.h>
#include <mutex>
#include <utility>

#include "base/control_thread.h"
#include "base/events.h"
#include "motion/libvirt_led_destination.h"
#include "motion/qemu.h"
#include "moves/motion_event.h"

namespace pvrdma::moves {
namespace {

constexpr Duration kRecordsPause = std::chrono::seconds(1);
constexpr Duration kCancelPatience = std::chrono::seconds(10);

// Waits for `pause`. Returns true at once when a stop is requested.
bool stops_within(const std::stop_token& stop, Duration pause) {
  std::mutex mutex;
  std::condition_variable_any nothing_comes;
  std::unique_lock lock(mutex);
  nothing_comes.wait_for(lock, stop, pause, [] { return false; });
  return stop.stop_requested();
}

}  // namespace

Motions::Motions(control::Plane& plane, motion::AdapterSide& side, const calls::HostCalls& outgoing,
                 calls::IncomingCalls& incoming, FindMonitor find_monitor, Duration first_look)
    : plane_(plane),
      side_(side),
      find_monitor_(std::move(find_monitor)),
      arbiter_(plane),
      departures_(plane, side, arbiter_, outgoing, find_monitor_),
      arrivals_(plane, side, arbiter_, find_monitor_, incoming),
      watcher_([this, first_look](const std::stop_token& stop) { watch_records(stop, first_look); }) {}

Motions::~Motions() {
  stop();
}

void Motions::interrupt() {
  departures_.interrupt();
  watcher_.request_stop();
}

void Motions::stop() {
  interrupt();
  if (watcher_.joinable()) watcher_.join();
  departures_.stop();
}

motion::MotionCounters Motions::counters() {
  motion::MotionCounters counters;
  departures_.add_to(counters);
  arrivals_.add_to(counters);
  return counters;
}

// Nobody leads a motion whose two hosts have both died, so only this call can end it.
Result<void> Motions::cancel(const std::string& vm) {
  auto cancelled = departures_.cancel(vm);
  if (cancelled || cancelled.error().kind != ErrorKind::kNotFound) return cancelled;
  const auto inventory = plane_.inventory();
  const auto found = inventory->vms.find(vm);
  if (found == inventory->vms.end() || !found->second.motion) return cancelled;
  const std::string& from = found->second.host;
  const std::string& to = found->second.motion->to;
  if (from == plane_.host() && is_led_by_libvirt(found->second.motion->id) &&
      inventory->live_hosts.contains(to)) {
    return fail(ErrorKind::kNotFound,
                fmt::format("the motion of VM {} started before this pvrdmad did: the pvrdmad of "
                            "host {} ends it when libvirt has let the VM run, or has ended its QEMU",
                            vm, to));
  }
  if (from == plane_.host()) {
    return fail(ErrorKind::kNotFound,
                fmt::format("the motion of VM {} started before this pvrdmad did: host {} decides, "
                            "and if that host has died, the motion is ended here in a moment",
                            vm, to));
  }
  if (inventory->live_hosts.contains(from) || inventory->live_hosts.contains(to)) {
    return fail(ErrorKind::kNotFound,
                fmt::format("VM {} is on its way from host {} to host {}: cancel it on host {}, or, "
                            "if that host has died, wait until the other one has decided",
                            vm, from, to, from));
  }
  return arbiter_.end({found->second.motion->id, vm, from, to});
}

// Runs on the watcher's thread. A QEMU that does not answer delays only this thread.
void Motions::watch_records(const std::stop_token& stop, Duration first_look) {
  begin_control_thread("motion-records");
  Duration pause = first_look;
  while (!stops_within(stop, pause)) {
    look_after_records(stop);
    pause = kRecordsPause;
  }
}

// Ends motions in the store that nobody leads any more, so that the VM can be edited again. If libvirt leads,
// the daemon of the destination host finds out where the VM is.
void Motions::look_after_records(const std::stop_token& stop) {
  const auto inventory = plane_.inventory();
  std::erase_if(reminders_, [&inventory](const auto& reminder) {
    const auto vm = inventory->vms.find(reminder.first);
    return vm == inventory->vms.end() || !vm->second.motion ||
           vm->second.motion->id != reminder.second.motion;
  });
  for (const auto& [name, vm] : inventory->vms) {
    if (!vm.motion) continue;
    if (stop.stop_requested()) return;  // each VM may take as long as a QEMU's time limit
    const bool leaves = vm.host == plane_.host();
    if (!leaves && vm.motion->to != plane_.host()) continue;
    if (leaves ? departures_.leads(name, vm.motion->id) : arrivals_.leads(name, vm.motion->id)) continue;
    const motion::Motion motion{vm.motion->id, name, vm.host, vm.motion->to};
    const bool is_led = is_led_by_libvirt(motion.id);
    if (is_led && !leaves) {
      if (is_open(motion)) follow_libvirt(motion);
      continue;
    }
    if ((is_led || !leaves) && inventory->live_hosts.contains(leaves ? motion.to : motion.from)) continue;
    if (!is_open(motion) || !arbiter_.end(motion)) continue;
    events::tell(log::Level::kWarn, motion_of(name),
                 "VM {}: its motion to host {} had no leader any more: it was ended", name, vm.motion->to);
    if (leaves && !is_led) continue_vm(name);
  }
}

// A motion that has just ended has no leader, but may still be in the inventory that is being looked through.
bool Motions::is_open(const motion::Motion& motion) {
  const auto verdict = arbiter_.look(motion);
  return verdict && *verdict == motion::Arbiter::Verdict::kOpen;
}

// Continues the work of the daemon's previous process. What that process had of the adapter is lost.
void Motions::follow_libvirt(const motion::Motion& motion) {
  const std::string& vm = motion.vm;
  const auto path = find_monitor_(vm);
  const auto monitor = path ? vmm::Monitor::connect(*path, Instant{}) : Failure(path.error());
  switch (motion::look_at(monitor ? monitor->get() : nullptr, side_, vm)) {
    case motion::LedVm::kGone:
      if (arbiter_.end(motion))
        events::tell(log::Level::kWarn, motion_of(vm),
                     "VM {}: libvirt has no QEMU for it here: it stays on host {}", vm, motion.from);
      break;
    case motion::LedVm::kRuns:
      if (!arbiter_.commit(motion)) break;
      events::tell(log::Level::kWarn, motion_of(vm),
                   "VM {}: libvirt lets it run here, but its adapter has lost its state: reload the driver",
                   vm);
      if (const auto works = side_.arrive(vm); !works) log::error("{}", works.error().message);
      break;
    case motion::LedVm::kWaits:
    case motion::LedVm::kStands:
    case motion::LedVm::kUnknown:
      remind(motion);
  }
}

// The first is an event. Repeated, it would displace the events of other motions.
void Motions::remind(const motion::Motion& motion) {
  const auto [reminder, is_first] = reminders_.try_emplace(motion.vm, Reminder{.motion = motion.id});
  if (!reminder->second.log.allow(Instant::now())) return;
  const std::string what =
      fmt::format("VM {}: it does not run here until libvirt lets it (virsh resume {}), or ends its QEMU",
                  motion.vm, motion.vm);
  if (is_first) {
    events::tell(log::Level::kWarn, motion_of(motion.vm), "{}", what);
  } else {
    log::warn("{}", what);
  }
}

// The VM may be paused in its QEMU and wait for a daemon that has died.
void Motions::continue_vm(const std::string& vm) {
  const auto path = find_monitor_(vm);
  if (!path) return;
  const auto monitor = vmm::Monitor::connect(*path, Instant{});
  if (!monitor) return;  // no QEMU is there
  const auto state = vmm::run_state(**monitor);
  if (!state || (*state != "finish-migrate" && *state != "postmigrate")) return;
  auto done = vmm::cancel_migration(**monitor, Instant::now() + kCancelPatience);
  const auto then = done ? vmm::run_state(**monitor) : Failure(done.error());
  if (then && *then == "paused") return;  // its operator had paused it before
  if (done) done = motion::continue_vm(**monitor);
  if (done) {
    events::tell(log::Level::kWarn, motion_of(vm), "VM {}: it was paused in its QEMU (pid {}), and goes on",
                 vm, (*monitor)->pid());
  } else {
    events::tell(log::Level::kError, motion_of(vm),
                 "VM {}: it is paused in its QEMU (pid {}), and could not be resumed: {}", vm,
                 (*monitor)->pid(), done.error().message);
  }
}

}  // namespace pvrdma::moves
