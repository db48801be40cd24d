// A VM that leaves this host led by libvirt (ADR 21).
#include <cerrno>
#include <fmt/core.h>
#include <thread>

#include "motion/qemu.h"
#include "motion/source.h"

namespace pvrdma::motion {
namespace {

using std::chrono::milliseconds;

constexpr Duration kPollInterval = milliseconds(2);
constexpr Duration kSettlePause = milliseconds(10);
// Of what the adapter wrote, between the daemons: 130 to 570 MB/s were seen (docs/performance.md).
constexpr std::uint64_t kPagesBytesPerS = 200'000'000;
// Until libvirt ends QEMU nobody waits for it: so what only QEMU can tell is asked for all the while.
constexpr Duration kRefreshInterval = milliseconds(100);
// Of a VM that has left, before a wish to cancel ends its motion: the other host may be about to see it run.
constexpr Duration kLostPatience = std::chrono::seconds(30);
// Of a VM that goes on, for its migration to be cancelled.
constexpr Duration kCancelPatience = std::chrono::seconds(30);
// libvirt has not let the VM go on for so long: who has moved it is to know.
constexpr Duration kStandsAfter = std::chrono::seconds(5);

}  // namespace

// At its QEMU.
struct Source::Look {
  enum class Vm : std::uint8_t { kRuns, kStands, kGone } vm = Vm::kStands;
  vmm::MigrationStatus migration;
};

// EAGAIN: it does not answer now.
Result<Source::Look> Source::look() {
  static_cast<void>(renew(monitor_));
  const auto state = vmm::run_state(*monitor_);
  const auto migration = state ? vmm::migration_status(*monitor_) : Result<vmm::MigrationStatus>({});
  if (state && migration) {
    note_run_state(*state);
    const bool stands = *state == "finish-migrate" || *state == "postmigrate";
    qemu_gave_all_ = stands && migration->status == "completed";
    return Look{stands ? Look::Vm::kStands : Look::Vm::kRuns, *migration};
  }
  // A session that ended for another reason is no QEMU that has ended.
  const int code = state ? migration.error().code : state.error().code;
  const auto has_vmm = side_.has_vmm(wish_.motion.vm);
  qemu_is_gone_ = code != ETIMEDOUT && code != EREMOTEIO && has_vmm && !*has_vmm;
  if (qemu_is_gone_) return Look{Look::Vm::kGone, {}};
  return fail(EAGAIN, state ? migration.error().message : state.error().message);
}

// The QEMU there is started with the same arguments, and its daemon looks for it at the same name.
Result<void> Source::check_monitor_name() {
  const auto chardevs = monitor_->execute("query-chardev");
  if (!chardevs) return Failure(chardevs.error());
  const std::string name = wish_.monitor.substr(wish_.monitor.find_last_of('/') + 1);
  for (const vmm::Json& each : chardevs->is_array() ? *chardevs : vmm::Json::array()) {
    const auto file = vmm::text_of(each, "filename");
    if (file && file->find("/" + name + ",") != std::string::npos) return {};
  }
  return fail(EINVAL,
              fmt::format("the QEMU of VM {} was not started with a monitor of the name {}, so the one "
                          "that libvirt starts on host {} will have none: give its domain what "
                          "pvrdmactl vm libvirt-xml {} prints",
                          wish_.motion.vm, name, wish_.motion.to, wish_.motion.vm));
}

// Before libvirt can begin: it finds no adapter on the other host until the store has the motion.
Result<void> Source::begin_led() {
  const std::string& vm = wish_.motion.vm;
  const auto image = side_.pci_image(vm);
  if (!image) return Failure(image.error());
  image_ = *image;
  if (auto logs = side_.begin_log(vm); !logs) return logs;
  logs_ = true;
  return side_.outlive_vmm(vm);
}

// As QEMU has it, while there is one.
void Source::refresh_image() {
  if (qemu_is_gone_) return;
  if (const auto image = side_.pci_image(wish_.motion.vm); image) image_ = *image;
}

Result<void> Source::follow_memory(const Progress& progress) {
  const Instant until = Instant::now() + wish_.patience;
  Instant refresh_at = Instant::now();
  bool has_begun = false;
  MotionProgress state{.phase = "memory"};
  while (true) {
    const Instant now = Instant::now();
    stood_ = now;
    const auto found = look();
    if (!found && found.error().code != EAGAIN) return Failure(found.error());
    if (found && found->vm != Look::Vm::kRuns) return {};
    if (found) {
      const vmm::MigrationStatus& migration = found->migration;
      const bool ended = vmm::has_ended(migration.status);  // or one before
      if (ended && has_begun)
        return fail(EIO, fmt::format("libvirt has ended its migration: QEMU's is \"{}\": {}",
                                     migration.status, migration.why));
      has_begun = has_begun || !ended;
      report_.ram_bytes = state.ram_bytes = migration.ram_bytes;
      state.remaining_bytes = migration.remaining_bytes;
    }
    if (!progress(state)) return fail(ECANCELED, "the motion was cancelled");
    if (now >= until)
      return fail(ETIMEDOUT, fmt::format("libvirt has not moved VM {} in time: allow more with --patience",
                                         wish_.motion.vm));
    if (now >= refresh_at) {
      refresh_at = now + kRefreshInterval;
      refresh_image();
      const auto logged = side_.logged_bytes(wish_.motion.vm);
      if (!logged) return Failure(logged.error());
      if (auto fit = check_pages_fit(*logged, kPagesBytesPerS); !fit) return fit;
    }
    auto said = there_.listen(now + kPollInterval);
    if (!said) return Failure(std::move(said).error());
    if (*said) return there_.given_up(**said);
  }
}

Result<void> Source::check_stands() {
  const auto found = look();
  if (!found || found->vm != Look::Vm::kRuns) return {};
  return fail(EIO, fmt::format("libvirt lets VM {} go on here: its migration is \"{}\": {}", wish_.motion.vm,
                               found->migration.status, found->migration.why));
}

Result<void> Source::wait_led(const char* what, const Progress& progress) {
  const Instant until = Instant::now() + wish_.patience;
  while (true) {
    auto said = there_.expect(what, Instant::now() + kPollInterval);
    if (said) return {};
    if (said.error().code != ETIMEDOUT) return Failure(std::move(said).error());
    if (auto stands = check_stands(); !stands) return stands;
    if (!progress(in_pause())) return fail(ECANCELED, "the motion was cancelled");
    if (Instant::now() >= until) return Failure(std::move(said).error());
  }
}

// QEMU's stream may hold older bytes of the pages: they go when the other QEMU has taken all of it.
Result<void> Source::hand_over_led(const Progress& progress) {
  const Instant began = Instant::now();
  if (auto memory = wait_led("memory", progress); !memory) return memory;
  const Instant gives = Instant::now();
  const auto given = side_.give_pages(wish_.motion.vm, [&](const MovingSide::Pages& pages) -> Result<void> {
    const auto said = there_.listen(Instant{});
    if (!said) return Failure(said.error());
    if (*said) return there_.given_up(**said);
    if (!progress(in_pause())) return fail(ECANCELED, "the motion was cancelled");
    return there_.say({{"say", "pages"}, {"at", pages.address}}, pages.bytes);
  });
  if (!given) return given;
  if (auto said = there_.say({{"say", "whole"}}); !said) return said;
  report_.pages = Instant::now() - gives;
  if (auto loaded = wait_led("loaded", progress); !loaded) return loaded;
  is_loaded_ = true;
  if (auto gone = wait_until_qemu_has_gone(progress); !gone) return gone;
  report_.memory = Instant::now() - began - report_.pages;
  return {};
}

// That is how libvirt says that the VM is the other host's. Before, it may still let it go on here.
Result<void> Source::wait_until_qemu_has_gone(const Progress& progress) {
  const MotionProgress state{.phase = "waits for libvirt", .ram_bytes = report_.ram_bytes};
  const Instant stands_at = Instant::now() + kStandsAfter;
  while (!qemu_is_gone_) {
    if (Instant::now() >= stands_at && waiting_log_.allow(Instant::now()))
      log::warn("VM {}: all of it is on host {}, and it stands until libvirt ends it here", wish_.motion.vm,
                wish_.motion.to);
    if (auto stands = check_stands(); !stands) return stands;
    if (!progress(state)) return fail(ECANCELED, "the motion was cancelled");
    if (!qemu_is_gone_) std::this_thread::sleep_for(kPollInterval);
  }
  return {};
}

void Source::say_what_is_waited_for(const Result<Look>& found, const std::string& why) {
  if (!waiting_log_.allow(Instant::now())) return;
  const std::string& vm = wish_.motion.vm;
  if (!found) {
    log::warn("VM {}: its motion was given up ({}), but its QEMU (pid {}) does not say whether it runs: {}",
              vm, why, pid_, found.error().message);
  } else if (found->vm == Look::Vm::kStands) {
    log::warn("VM {}: it stands until libvirt lets it go on, here or there (virsh resume {}): {}", vm, vm,
              why);
  } else {
    log::warn("VM {}: it goes on, but its QEMU (pid {}) does not end its migration (\"{}\"): {}", vm, pid_,
              found->migration.status, why);
  }
}

// A migration that is not over is cancelled. Where the VM is after that, libvirt decides.
Result<void> Source::undo_all_led(const std::string& why, const Progress& progress) {
  static_cast<void>(there_.say(calls::over(why)));
  Result<void> outcome;
  const auto note = [&outcome](const auto& done) {
    if (!done && outcome) outcome = Failure(done.error());
  };
  bool cancelled = false;
  const Instant began = Instant::now();
  while (true) {
    const auto found = look();
    if (qemu_is_gone_) {
      if (!is_loaded_) lost_ = why;
      return learn_where_it_is(progress);
    }
    const Instant now = Instant::now();
    if (found && found->vm == Look::Vm::kRuns) {
      is_loaded_ = false;  // what was handed over is old
      if (std::exchange(stopped_, false)) note(side_.go_on(wish_.motion.vm));
      if (vmm::has_ended(found->migration.status) || now >= began + kCancelPatience) break;
    }
    if (!cancelled) cancelled = monitor_->execute("migrate_cancel").has_value();
    const bool stands = found && found->vm == Look::Vm::kStands;
    const bool takes_long = now >= began + kStandsAfter;
    if (stands && takes_long) static_cast<void>(progress({.phase = "stands"}));
    if (stands || takes_long) say_what_is_waited_for(found, why);
    if (stopping_() && (stands || takes_long))
      return fail(ECANCELED, fmt::format("this daemon stops: whether VM {} goes on is libvirt's to say",
                                         wish_.motion.vm));
    std::this_thread::sleep_for(kSettlePause);
  }
  if (state_sent_) {
    if (auto ended = end_in_writing(); !ended) return ended;
    begun_ = false;
  }
  note(side_.end_with_vmm(wish_.motion.vm));
  if (std::exchange(logs_, false)) note(side_.end_log(wish_.motion.vm));
  if (std::exchange(begun_, false)) note(arbiter_.end(wish_.motion));
  return outcome;
}

// Its QEMU has gone, and not all of its adapter was handed over. If QEMU had given the VM away before, it is
// there, for nothing else makes libvirt end it. Otherwise the other host's daemon sees whether the VM runs
// there, and tells the store. Who gives up waiting for that ends the motion.
Result<void> Source::learn_where_it_is(const Progress& progress) {
  if (!is_loaded_) static_cast<void>(side_.end_with_vmm(wish_.motion.vm));
  const Instant until = Instant::now() + kLostPatience;
  while (true) {
    const auto verdict = arbiter_.look(wish_.motion);
    over_ = (verdict && *verdict == Arbiter::Verdict::kThere) ||
            ((qemu_gave_all_ || is_loaded_) && arbiter_.commit(wish_.motion));
    if (over_) return fail(EALREADY, "it is there");
    const bool stays = verdict && *verdict == Arbiter::Verdict::kStays;
    if (stopping_()) return fail(ECANCELED, "this daemon stops");
    const bool is_wanted = progress({.phase = "lost"}) || Instant::now() < until;
    if (stays || !is_wanted) {
      static_cast<void>(arbiter_.end(wish_.motion));
      static_cast<void>(side_.end_with_vmm(wish_.motion.vm));
      return fail(ECONNABORTED, fmt::format("it has ended, and VM {} does not run on host {}",
                                            wish_.motion.vm, wish_.motion.to));
    }
    if (waiting_log_.allow(Instant::now()))
      log::warn(
          "VM {}: its QEMU here (pid {}) has ended, and nobody has seen it run on host {}: resume it "
          "there (virsh resume {}), or end its motion (pvrdmactl vm migrate {} --cancel)",
          wish_.motion.vm, pid_, wish_.motion.to, wish_.motion.vm, wish_.motion.vm);
    std::this_thread::sleep_for(Arbiter::kPause);
  }
}

}  // namespace pvrdma::motion
