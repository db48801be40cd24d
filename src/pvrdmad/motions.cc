#include "pvrdmad/motions.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <utility>

#include "base/control_thread.h"
#include "base/log.h"
#include "motion/qemu.h"

namespace pvrdma::daemon {
namespace {

constexpr Duration kRecordsPause = std::chrono::seconds(1);
constexpr Duration kCancelPatience = std::chrono::seconds(10);

}  // namespace

Motions::Motions(control::Plane& plane, motion::MovingSide& side, HostCalls calls, FindMonitor find_monitor,
                 Duration first_look, AnswerOther answer_other)
    : plane_(plane),
      side_(side),
      calls_to_(std::move(calls)),
      find_monitor_(std::move(find_monitor)),
      answer_other_(std::move(answer_other)),
      arbiter_(plane),
      departures_(plane, side, arbiter_, calls_to_, find_monitor_),
      arrivals_(plane, side, arbiter_, find_monitor_, answer_other_),
      clerk_([this] { attend(); }),
      watcher_([this, first_look] { watch_records(first_look); }) {}

Motions::~Motions() {
  stop();
}

void Motions::stop() {
  departures_.interrupt();
  arrivals_.interrupt();
  {
    const std::lock_guard lock(calls_mutex_);
    takes_calls_ = false;
  }
  call_came_.notify_all();
  stops_.notify_all();
  if (clerk_.joinable()) clerk_.join();
  if (watcher_.joinable()) watcher_.join();
  departures_.stop();
  arrivals_.stop();
}

control::MotionCounters Motions::counters() {
  control::MotionCounters counters;
  departures_.add_to(counters);
  arrivals_.add_to(counters);
  return counters;
}

// One whose hosts have both gone is led by nobody, and nobody else will ever end it.
Result<void> Motions::cancel(const std::string& vm) {
  auto cancelled = departures_.cancel(vm);
  if (cancelled || cancelled.error().code != ENOENT) return cancelled;
  const auto inventory = plane_.inventory();
  const auto found = inventory->vms.find(vm);
  if (found == inventory->vms.end() || !found->second.motion) return cancelled;
  const std::string& from = found->second.host;
  const std::string& to = found->second.motion->to;
  if (from == plane_.host() && is_led_by_libvirt(found->second.motion->id) &&
      inventory->live_hosts.contains(to)) {
    return fail(ENOENT,
                fmt::format("the motion of VM {} was begun before this pvrdmad was: the one of host {} "
                            "ends it when libvirt has let the VM run, or has ended its QEMU",
                            vm, to));
  }
  if (from == plane_.host()) {
    return fail(ENOENT, fmt::format("the motion of VM {} was begun before this pvrdmad was: host {} decides, "
                                    "and where that does not, it is ended here in a moment",
                                    vm, to));
  }
  if (inventory->live_hosts.contains(from) || inventory->live_hosts.contains(to)) {
    return fail(ENOENT, fmt::format("VM {} is on its way from host {} to host {}: cancel it on host {}, or, "
                                    "when that one has died, wait until the other one has decided",
                                    vm, from, to, from));
  }
  return arbiter_.end({found->second.motion->id, vm, from, to});
}

void Motions::take_call(std::unique_ptr<transport::tcp::Stream> stream, std::string peer) {
  auto call = std::make_unique<transport::tcp::Call>(std::move(stream), std::move(peer));
  {
    const std::lock_guard lock(calls_mutex_);
    const auto free = std::find(calls_.begin(), calls_.end(), nullptr);
    if (!takes_calls_ || free == calls_.end()) return;
    *free = std::move(call);
  }
  call_came_.notify_one();
}

// Null: none is taken any more.
std::unique_ptr<transport::tcp::Call> Motions::next_call() {
  const auto is_call = [](const auto& call) { return call != nullptr; };
  std::unique_lock lock(calls_mutex_);
  call_came_.wait(lock, [&] { return !takes_calls_ || std::ranges::any_of(calls_, is_call); });
  return takes_calls_ ? std::move(*std::ranges::find_if(calls_, is_call)) : nullptr;
}

// The clerk.
void Motions::attend() {
  begin_control_thread("motions");
  while (auto call = next_call()) arrivals_.answer(std::move(call));
}

// The watcher. A QEMU that does not answer holds it up, and nobody else.
void Motions::watch_records(Duration first_look) {
  begin_control_thread("motion-records");
  Duration pause = first_look;
  while (!stops_within(pause)) {
    look_after_records();
    pause = kRecordsPause;
  }
}

bool Motions::stops_within(Duration pause) {
  std::unique_lock lock(calls_mutex_);
  return stops_.wait_for(lock, pause, [this] { return !takes_calls_; });
}

// A motion in the store that nobody leads any more is ended: a VM that goes nowhere can be edited again.
// Where libvirt leads, the daemon of the host that it goes to sees what has become of it.
void Motions::look_after_records() {
  const auto inventory = plane_.inventory();
  for (const auto& [name, vm] : inventory->vms) {
    if (!vm.motion) continue;
    if (stops_within({})) return;  // each may take a QEMU's patience
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
    log::warn("VM {}: its motion to host {} is led by nobody: it was ended", name, vm.motion->to);
    if (leaves && !is_led) continue_vm(name);
  }
}

// One that has just ended is led no more, and may be in the inventory that was looked through.
bool Motions::is_open(const motion::Motion& motion) {
  const auto verdict = arbiter_.look(motion);
  return verdict && *verdict == motion::Arbiter::Verdict::kOpen;
}

// For the last process of this daemon, which did. What that had of the adapter is gone.
void Motions::follow_libvirt(const motion::Motion& motion) {
  const std::string& vm = motion.vm;
  const auto path = find_monitor_(vm);
  const auto monitor = path ? vmm::Monitor::connect(*path, Instant{}) : Failure(path.error());
  switch (motion::look_at(monitor ? monitor->get() : nullptr, side_, vm)) {
    case motion::LedVm::kGone:
      if (arbiter_.end(motion))
        log::warn("VM {}: libvirt has no QEMU for it here: it stays on host {}", vm, motion.from);
      break;
    case motion::LedVm::kRuns:
      if (!arbiter_.commit(motion)) break;
      log::warn("VM {}: libvirt lets it run here, and its adapter has lost everything: reload the driver",
                vm);
      if (const auto works = side_.arrive(vm); !works) log::error("{}", works.error().message);
      break;
    case motion::LedVm::kWaits:
    case motion::LedVm::kStands:
    case motion::LedVm::kUnknown:
      if (waiting_log_.allow(Instant::now()))
        log::warn("VM {}: it does not run here until libvirt lets it (virsh resume {}), or ends its QEMU", vm,
                  vm);
  }
}

// Its QEMU may stand and wait for a daemon that does not live any more.
void Motions::continue_vm(const std::string& vm) {
  const auto path = find_monitor_(vm);
  if (!path) return;
  const auto monitor = vmm::Monitor::connect(*path, Instant{});
  if (!monitor) return;  // no QEMU is there
  const auto state = vmm::run_state(**monitor);
  if (!state || (*state != "finish-migrate" && *state != "postmigrate")) return;
  auto done = vmm::cancel_migration(**monitor, Instant::now() + kCancelPatience);
  const auto then = done ? vmm::run_state(**monitor) : Failure(done.error());
  if (then && *then == "paused") return;  // as it was before
  if (done) done = motion::continue_vm(**monitor);
  if (done) {
    log::warn("VM {}: it stood in its QEMU (pid {}), and goes on", vm, (*monitor)->pid());
  } else {
    log::error("VM {}: it stands in its QEMU (pid {}), and does not go on: {}", vm, (*monitor)->pid(),
               done.error().message);
  }
}

}  // namespace pvrdma::daemon
