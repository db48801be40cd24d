#include "motion/libvirt_led_source.h"

#include <cerrno>
#include <fmt/core.h>
#include <thread>

#include "motion/qemu.h"

namespace pvrdma::motion {
namespace {

using std::chrono::milliseconds;

constexpr Duration kLibvirtPollInterval = milliseconds(2);
constexpr Duration kSettlePause = milliseconds(10);
// The speed between the daemons for pages that the adapter wrote. 130 to 570 MB/s were measured
// (docs/performance.md).
constexpr std::uint64_t kPagesBytesPerS = 200'000'000;
// libvirt does not wait for the daemon before it ends QEMU. So the daemon asks again and again for what only
// QEMU knows.
constexpr Duration kRefreshInterval = milliseconds(100);
// How long the motion of a VM that has left outlives a request to cancel: the other host may be about to see
// it run.
constexpr Duration kLostPatience = std::chrono::seconds(30);
// How long to wait until the migration of a VM that runs again is cancelled.
constexpr Duration kLibvirtCancelPatience = std::chrono::seconds(30);
// If libvirt has not let the VM run for this long, the log tells the person who moves it.
constexpr Duration kStandsAfter = std::chrono::seconds(5);

}  // namespace

// kUnavailable: QEMU does not answer now.
Result<LibvirtLedSource::Look> LibvirtLedSource::look() {
  static_cast<void>(renew(monitor_));
  const auto state = vmm::run_state(*monitor_);
  const auto migration = state ? vmm::migration_status(*monitor_) : Result<vmm::MigrationStatus>({});
  if (state && migration) {
    note_run_state(*state);
    const bool stands = *state == "finish-migrate" || *state == "postmigrate";
    qemu_gave_all_ = stands && migration->status == "completed";
    return Look{stands ? Look::Vm::kStands : Look::Vm::kRuns, *migration};
  }
  // If the session ended for another reason, QEMU may not have ended.
  const int code = state ? migration.error().code : state.error().code;
  const auto clients = side_.clients(motion_.vm);
  qemu_is_gone_ = code != ETIMEDOUT && code != EREMOTEIO && clients && !clients->has_vmm;
  if (qemu_is_gone_) return Look{Look::Vm::kGone, {}};
  return fail(ErrorKind::kUnavailable, state ? migration.error().message : state.error().message);
}

// The other QEMU is started with the same arguments, and its daemon looks for its monitor under the same
// name.
Result<void> LibvirtLedSource::check_qemu() {
  const auto chardevs = monitor_->execute("query-chardev");
  if (!chardevs) return Failure(chardevs.error());
  const std::string name = wish_.monitor.substr(wish_.monitor.find_last_of('/') + 1);
  for (const vmm::Json& each : chardevs->is_array() ? *chardevs : vmm::Json::array()) {
    const auto file = vmm::text_of(each, "filename");
    if (file && file->find("/" + name + ",") != std::string::npos) return {};
  }
  return fail(ErrorKind::kInvalid,
              fmt::format("the QEMU of VM {} was not started with a monitor of the name {}, so the "
                          "QEMU that libvirt starts on host {} will have no such monitor either: "
                          "give its domain what pvrdmactl vm libvirt-xml {} prints",
                          motion_.vm, name, motion_.to, motion_.vm));
}

// This happens before libvirt can start: it finds no adapter on the other host until the store has the
// motion.
Result<void> LibvirtLedSource::before_begin() {
  const std::string& vm = motion_.vm;
  const auto image = side_.pci_image(vm);
  if (!image) return Failure(image.error());
  image_ = *image;
  if (auto logs = begin_log(); !logs) return logs;
  return side_.outlive_vmm(vm);
}

Result<void> LibvirtLedSource::check_qemu_lives() {
  const auto clients = side_.clients(motion_.vm);
  if (!clients || clients->has_vmm) return {};
  return fail(EPIPE, fmt::format("the QEMU of VM {} has ended", motion_.vm));
}

Failure LibvirtLedSource::no_qemu_there() const {
  return fail(ETIMEDOUT,
              fmt::format("on host {} libvirt has started no QEMU for VM {}: has virsh migrate begun?",
                          motion_.to, motion_.vm));
}

// Reads the PCI state from QEMU, as long as QEMU exists.
void LibvirtLedSource::refresh_image() {
  if (qemu_is_gone_) return;
  if (const auto image = side_.pci_image(motion_.vm); image) image_ = *image;
}

Result<void> LibvirtLedSource::copy_memory(const Progress& progress) {
  const Instant until = Instant::now() + wish_.patience;
  Instant refresh_at = Instant::now();
  bool has_begun = false;
  MotionProgress state{.phase = "memory"};
  while (true) {
    const Instant now = Instant::now();
    stood_ = now;
    const auto found = look();
    if (!found && found.error().kind != ErrorKind::kUnavailable) return Failure(found.error());
    if (found && found->vm != Look::Vm::kRuns) return {};
    if (found) {
      const vmm::MigrationStatus& migration = found->migration;
      const bool ended = vmm::has_ended(migration.status);  // this migration or an earlier one
      if (ended && has_begun)
        return fail(EIO, fmt::format("libvirt has ended the migration: QEMU's status is \"{}\": {}",
                                     migration.status, migration.why));
      has_begun = has_begun || !ended;
      report_.ram_bytes = state.ram_bytes = migration.ram_bytes;
      state.remaining_bytes = migration.remaining_bytes;
    }
    if (!progress(state)) return fail(ECANCELED, "the motion was cancelled");
    if (now >= until)
      return fail(ETIMEDOUT,
                  fmt::format("libvirt has not moved VM {} in time: allow more with --patience", motion_.vm));
    if (now >= refresh_at) {
      refresh_at = now + kRefreshInterval;
      refresh_image();
      const auto logged = side_.logged_bytes(motion_.vm);
      if (!logged) return Failure(logged.error());
      if (auto fit = check_pages_fit(*logged, kPagesBytesPerS); !fit) return fit;
    }
    auto said = there_.listen(now + kLibvirtPollInterval);
    if (!said) return Failure(std::move(said).error());
    if (*said) return there_.given_up(**said);
  }
}

// The pages are sent in hand_over(), when the other QEMU has received its whole stream.
Result<void> LibvirtLedSource::catch_up(std::uint64_t, Stopwatch&) {
  refresh_image();
  return {};
}

Result<void> LibvirtLedSource::check_stands() {
  const auto found = look();
  if (!found || found->vm != Look::Vm::kRuns) return {};
  return fail(EIO, fmt::format("libvirt has resumed VM {} here: its migration is \"{}\": {}", motion_.vm,
                               found->migration.status, found->migration.why));
}

Result<void> LibvirtLedSource::wait_in_pause(const char* what, const Progress& progress) {
  const Instant until = Instant::now() + wish_.patience;
  while (true) {
    auto said = there_.expect(what, Instant::now() + kLibvirtPollInterval);
    if (said) return {};
    if (said.error().code != ETIMEDOUT) return Failure(std::move(said).error());
    if (auto stands = check_stands(); !stands) return stands;
    if (!progress(in_pause())) return fail(ECANCELED, "the motion was cancelled");
    if (Instant::now() >= until) return Failure(std::move(said).error());
  }
}

// Sends the pages after the other QEMU has received its whole stream, because the stream may hold older
// contents of them.
Result<void> LibvirtLedSource::hand_over(const Progress& progress) {
  const Instant began = Instant::now();
  if (auto memory = wait_in_pause("memory", progress); !memory) return memory;
  const Instant gives = Instant::now();
  const auto given = side_.give_pages(motion_.vm, [&](const AdapterSide::Pages& pages) -> Result<void> {
    const auto said = there_.listen(Instant{});
    if (!said) return Failure(said.error());
    if (*said) return there_.given_up(**said);
    if (!progress(in_pause())) return fail(ECANCELED, "the motion was cancelled");
    return there_.say("pages", PagesMessage{pages.address}, pages.bytes);
  });
  if (!given) return given;
  if (auto said = there_.say("whole"); !said) return said;
  report_.pages = Instant::now() - gives;
  if (auto loaded = wait_in_pause("loaded", progress); !loaded) return loaded;
  given_ = Given::kAll;
  if (auto gone = wait_until_qemu_has_gone(progress); !gone) return gone;
  report_.memory = Instant::now() - began - report_.pages;
  return {};
}

// libvirt ends QEMU here to say that the VM belongs to the other host. Before that it may still let the VM
// run here.
Result<void> LibvirtLedSource::wait_until_qemu_has_gone(const Progress& progress) {
  const MotionProgress state{.phase = "waits for libvirt", .ram_bytes = report_.ram_bytes};
  const Instant stands_at = Instant::now() + kStandsAfter;
  while (!qemu_is_gone_) {
    if (Instant::now() >= stands_at && waiting_log_.allow(Instant::now()))
      log::warn("VM {}: all of it is on host {}, and it stays paused until libvirt ends its QEMU here",
                motion_.vm, motion_.to);
    if (auto stands = check_stands(); !stands) return stands;
    if (!progress(state)) return fail(ECANCELED, "the motion was cancelled");
    if (!qemu_is_gone_) std::this_thread::sleep_for(kLibvirtPollInterval);
  }
  return {};
}

std::string LibvirtLedSource::leave() {
  const Instant began = Instant::now();
  static_cast<void>(side_.depart(motion_.vm));
  const auto runs = lost_.empty() ? hear_that_it_runs(began) : Result<calls::Said>(fail(ECONNABORTED, lost_));
  static_cast<void>(side_.end_with_vmm(motion_.vm));
  report_.is_lost = !lost_.empty();
  if (report_.is_lost) {
    report_.pause = Instant::now() - stood_;
    return fmt::format("VM {} is on host {} now, without its connections ({}): reload its driver there",
                       motion_.vm, motion_.to, lost_);
  }
  if (runs) return {};
  return fmt::format("VM {} is on host {} now, but that host has not confirmed that it runs ({}): look there",
                     motion_.vm, motion_.to, runs.error().message);
}

void LibvirtLedSource::say_what_is_waited_for(const Result<Look>& found, const std::string& why) {
  if (!waiting_log_.allow(Instant::now())) return;
  const std::string& vm = motion_.vm;
  if (!found) {
    log::warn("VM {}: its motion was given up ({}), but its QEMU (pid {}) does not say whether it runs: {}",
              vm, why, pid_, found.error().message);
  } else if (found->vm == Look::Vm::kStands) {
    log::warn("VM {}: it stays paused until libvirt resumes it, here or there (virsh resume {}): {}", vm, vm,
              why);
  } else {
    log::warn("VM {}: it goes on, but its QEMU (pid {}) does not end its migration (\"{}\"): {}", vm, pid_,
              found->migration.status, why);
  }
}

// A migration that has not ended is cancelled. After that libvirt decides where the VM is.
Result<void> LibvirtLedSource::undo(const std::string& why, const Progress& progress) {
  static_cast<void>(there_.end(why));
  Result<void> outcome;
  const auto note = [&outcome](const auto& done) {
    if (!done && outcome) outcome = Failure(done.error());
  };
  bool cancelled = false;
  const Instant began = Instant::now();
  while (true) {
    const auto found = look();
    if (qemu_is_gone_) {
      if (given_ != Given::kAll) lost_ = why;
      return learn_where_it_is(progress);
    }
    const Instant now = Instant::now();
    if (found && found->vm == Look::Vm::kRuns) {
      if (given_ == Given::kAll) given_ = Given::kState;  // what was handed over is out of date
      if (std::exchange(stopped_, false)) note(side_.go_on(motion_.vm));
      if (vmm::has_ended(found->migration.status) || now >= began + kLibvirtCancelPatience) break;
    }
    if (!cancelled) cancelled = monitor_->execute("migrate_cancel").has_value();
    const bool stands = found && found->vm == Look::Vm::kStands;
    const bool takes_long = now >= began + kStandsAfter;
    if (stands && takes_long) static_cast<void>(progress({.phase = "stands"}));
    if (stands || takes_long) say_what_is_waited_for(found, why);
    if (stopping_() && (stands || takes_long))
      return fail(ECANCELED,
                  fmt::format("this daemon stops: libvirt decides whether VM {} runs again", motion_.vm));
    std::this_thread::sleep_for(kSettlePause);
  }
  if (given_ != Given::kNothing) {
    if (auto ended = end_in_writing(); !ended) return ended;
    begun_ = false;
  }
  note(side_.end_with_vmm(motion_.vm));
  if (std::exchange(logs_, false)) note(side_.end_log(motion_.vm));
  if (std::exchange(begun_, false)) note(arbiter_.end(motion_));
  return outcome;
}

// QEMU has ended here, and perhaps not all of the adapter was handed over. If QEMU had given the VM away
// before, the VM is there, because nothing else makes libvirt end this QEMU. Otherwise the other host's
// daemon sees whether the VM runs there, and tells the store. Giving up this
// wait ends the motion.
Result<void> LibvirtLedSource::learn_where_it_is(const Progress& progress) {
  const bool has_all = given_ == Given::kAll;
  if (!has_all) static_cast<void>(side_.end_with_vmm(motion_.vm));
  const Instant until = Instant::now() + kLostPatience;
  while (true) {
    const auto verdict = arbiter_.look(motion_);
    if ((verdict && *verdict == Arbiter::Verdict::kThere) ||
        ((qemu_gave_all_ || has_all) && arbiter_.commit(motion_))) {
      given_ = Given::kVm;
      return fail(EALREADY, "it is there");
    }
    const bool stays = verdict && *verdict == Arbiter::Verdict::kStays;
    if (stopping_()) return fail(ECANCELED, "this daemon stops");
    const bool is_wanted = progress({.phase = "lost"}) || Instant::now() < until;
    if (stays || !is_wanted) {
      static_cast<void>(arbiter_.end(motion_));
      static_cast<void>(side_.end_with_vmm(motion_.vm));
      return fail(ECONNABORTED,
                  fmt::format("it has ended, and VM {} does not run on host {}", motion_.vm, motion_.to));
    }
    if (waiting_log_.allow(Instant::now()))
      log::warn(
          "VM {}: its QEMU here (pid {}) has ended, and nobody has seen it run on host {}: resume it there "
          "(virsh resume {}), or end its motion (pvrdmactl vm migrate {} --cancel)",
          motion_.vm, pid_, motion_.to, motion_.vm, motion_.vm);
    std::this_thread::sleep_for(Arbiter::kPause);
  }
}

}  // namespace pvrdma::motion
