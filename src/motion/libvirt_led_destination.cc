#include "motion/libvirt_led_destination.h"

#include <cerrno>
#include <fmt/core.h>
#include <thread>

#include "vmm/migration.h"

namespace pvrdma::motion {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kGiveUpPollInterval = milliseconds(20);
constexpr Duration kLookInterval = milliseconds(50);

}  // namespace

LedVm look_at(vmm::Monitor* monitor, AdapterSide& side, const std::string& vm) {
  if (monitor != nullptr) {
    const auto state = vmm::run_state(*monitor);
    if (state && *state == "running") return LedVm::kRuns;
    if (state) return *state == "inmigrate" ? LedVm::kWaits : LedVm::kStands;
  }
  const auto clients = side.clients(vm);
  const bool is_gone =
      clients ? !clients->has_vmm : clients.error().kind == ErrorKind::kNotFound;  // or has no adapter
  return is_gone ? LedVm::kGone : LedVm::kUnknown;
}

Result<void> LibvirtLedDestination::check_waits(const Qemu& qemu) {
  if (qemu.state == "inmigrate") return {};
  return fail(ErrorKind::kConflict,
              fmt::format("the QEMU at {} does not wait for VM {}: it is in state \"{}\"",
                          qemu.monitor->path(), offer_.motion.vm, qemu.state));
}

Result<void> LibvirtLedDestination::prepare() {
  auto draft = receive_pci_image();
  if (!draft) return Failure(std::move(draft).error());
  if (auto tried = try_draft(*std::move(draft)); !tried) return tried;
  // Early, because libvirt may let the VM run here before its adapter is here.
  if (auto restored = restore_pci(); !restored) return restored;
  return there_.say("restored");
}

Result<void> LibvirtLedDestination::complete() {
  if (auto taken = take_pages(); !taken) return taken;
  look_at_ = Instant::now() + kLookInterval;
  return say_loaded();
}

// A VM whose QEMU does not answer may be running.
Result<void> LibvirtLedDestination::check_stands(bool has_pages) {
  const LedVm vm = look();
  if (vm == LedVm::kStands) return {};
  if (vm != LedVm::kRuns)
    return fail(ErrorKind::kUnavailable,
                fmt::format("it is unknown whether VM {} is paused here: its QEMU does not answer",
                            offer_.motion.vm));
  return fail(
      ErrorKind::kConflict,
      fmt::format("VM {} runs here before its adapter is here: have libvirt leave it paused "
                  "(virsh migrate --suspend){}",
                  offer_.motion.vm, has_pages ? "; old bytes may have replaced newer ones: reset it" : ""));
}

// Takes the pages that the adapter had written on the other host. They overwrite what QEMU has brought.
Result<void> LibvirtLedDestination::take_pages() {
  const std::string& vm = offer_.motion.vm;
  bool has_pages = false;
  if (auto stands = check_stands(has_pages); !stands) return stands;
  if (auto told = there_.say("memory"); !told) return told;
  while (true) {
    auto said = there_.listen(Instant::now() + calls::Conversation::kAnswerPatience);
    if (!said) return Failure(std::move(said).error());
    if (!*said)
      return fail(ETIMEDOUT,
                  fmt::format("host {} does not send the pages that the adapter of VM {} has written",
                              offer_.motion.from, vm));
    if ((*said)->is("whole")) break;
    if (!(*said)->is("pages")) return there_.given_up(**said);
    PagesMessage pages;
    if (!(*said)->read("the message", pages) || (*said)->bytes.size() > AdapterSide::kPagesBytesMax)
      return fail(EPROTO,
                  fmt::format("host {} sends pages of VM {} without an address, or more than {} bytes",
                              offer_.motion.from, vm, AdapterSide::kPagesBytesMax));
    if (auto stands = check_stands(has_pages); !stands) return stands;
    has_pages = true;
    auto put = side_.put_pages(vm, {pages.address, std::move((*said)->bytes)});
    if (!put) return put;
  }
  return check_stands(has_pages);
}

// A VM that runs here tells us that libvirt has decided for this host.
Result<bool> LibvirtLedDestination::may_commit(bool is_alone) {
  const Instant now = Instant::now();
  if (now < look_at_) return false;
  look_at_ = now + kLookInterval;
  const LedVm vm = look();
  if (vm == LedVm::kGone)
    return fail(ECONNABORTED,
                fmt::format("the QEMU of VM {} here (pid {}) has ended", offer_.motion.vm, report_.pid));
  if (vm == LedVm::kStands && is_alone && waiting_log_.allow(now))
    log::warn("VM {}: all of it is here, and it stays paused until libvirt resumes it: virsh resume {}",
              offer_.motion.vm, offer_.motion.vm);
  return vm == LedVm::kRuns;
}

Result<void> LibvirtLedDestination::stop_deciding() {
  return fail(ErrorKind::kUnavailable,
              fmt::format("this daemon stops: libvirt decides where VM {} is", offer_.motion.vm));
}

LedVm LibvirtLedDestination::look() {
  if (monitor_ != nullptr && !monitor_->works()) {
    auto again = vmm::Monitor::connect(monitor_->path(), Instant{});
    if (again) monitor_ = *std::move(again);
  }
  return look_at(monitor_.get(), side_, offer_.motion.vm);
}

// Stops QEMU from receiving more of the VM. If it has received something, only libvirt knows whether the VM
// is complete here.
void LibvirtLedDestination::stop_incoming() {
  if (monitor_ == nullptr) {
    const auto path = find_monitor_();
    auto monitor = path ? vmm::Monitor::connect(*path, Instant{}) : Failure(path.error());
    if (!monitor) return;  // libvirt has not started one
    monitor_ = *std::move(monitor);
  }
  if (look() != LedVm::kWaits) return;
  const auto found = vmm::migration_status(*monitor_);
  if (found && (found->status == "none" || found->status == "setup")) {
    static_cast<void>(monitor_->execute("quit"));
  } else {
    const auto migration = vmm::Json::array({{{"type", "migration"}}});
    static_cast<void>(monitor_->execute("yank", {{"instances", migration}}));
  }
}

// libvirt decides where the VM is. It is here if it runs here, whatever has become of its adapter. It is not
// here if its QEMU ends.
Result<ArrivalReport> LibvirtLedDestination::give_up(Error why) {
  const std::string& vm = offer_.motion.vm;
  log::LogLimiter waiting_log(1, seconds(10));
  stop_incoming();
  while (true) {
    const auto verdict = arbiter_.look(offer_.motion);
    if (verdict && *verdict == Arbiter::Verdict::kStays) return Failure(std::move(why));
    if (verdict && *verdict == Arbiter::Verdict::kThere) break;
    const LedVm found = look();
    if (monitor_ == nullptr) stop_incoming();
    bool is_told = true;
    if (found == LedVm::kGone) {
      is_told = arbiter_.end(offer_.motion).has_value();
    } else if (found == LedVm::kRuns) {
      is_told = arbiter_.commit(offer_.motion).has_value();
    } else if (found == LedVm::kStands && waiting_log.allow(Instant::now())) {
      log::warn("VM {}: it is paused here, without its adapter's connections, until libvirt resumes it: {}",
                vm, why.message);
    }
    if (stopping_()) return Failure(std::move(why));
    std::this_thread::sleep_for(is_told ? kGiveUpPollInterval : Arbiter::kPause);
  }
  if (auto begun = begin_anew(); !begun) why.message += fmt::format("; then {}", begun.error().message);
  why.message +=
      fmt::format("; VM {} is on this host, but its adapter has lost its state: reload the driver", vm);
  return Failure(std::move(why));
}

// Starts the adapter without its state, because the VM is nowhere else.
Result<void> LibvirtLedDestination::begin_anew() {
  if (is_loaded_) {
    if (auto unloaded = side_.unload(offer_.motion.vm); !unloaded) return unloaded;
  }
  if (auto works = side_.arrive(offer_.motion.vm); !works) return works;
  if (is_paused_) return {};
  if (monitor_ == nullptr) return fail("its QEMU's monitor was never reached: continue it by hand");
  const auto continued = monitor_->execute("cont");
  return continued ? Result<void>() : Failure(continued.error());
}

}  // namespace pvrdma::motion
