#include "motion/daemon_led_source.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <thread>

#include "motion/insist.h"
#include "motion/qemu.h"

namespace pvrdma::motion {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

// kAutoConverge slows down a guest that writes its memory faster than it can be sent.
constexpr const char* kCapabilities[] = {vmm::kPauseBeforeSwitchover, vmm::kAutoConverge};
constexpr Duration kMigrationPollInterval = milliseconds(2);
constexpr Duration kQemuCancelPatience = seconds(10);
// QEMU stops the VM when it expects to send the rest within this time. If that does not happen, the allowed
// time grows step by step.
constexpr Duration kFirstDowntime = milliseconds(30);
constexpr Duration kRelaxInterval = seconds(3);

std::int64_t ms(Duration duration) {
  return duration_cast<milliseconds>(duration).count();
}

}  // namespace

// Remembers what undo() puts back.
Result<void> DaemonLedSource::check_qemu() {
  auto settings = vmm::migration_settings(*monitor_);
  if (!settings) return Failure(std::move(settings).error());
  kept_ = *settings;
  auto capabilities = vmm::migration_capabilities(*monitor_);
  if (!capabilities) return Failure(std::move(capabilities).error());
  kept_capabilities_ = *std::move(capabilities);
  return {};
}

Failure DaemonLedSource::no_qemu_there() const {
  return fail(ETIMEDOUT, fmt::format("on host {} no QEMU waits for VM {}: start one there with the arguments "
                                     "that pvrdmactl vm qemu-args {} --restore prints",
                                     motion_.to, motion_.vm, motion_.vm));
}

Result<void> DaemonLedSource::set_up_qemu() {
  set_up_ = true;
  for (const char* capability : kCapabilities) {
    if (auto set = vmm::set_migration_capability(*monitor_, capability, true); !set) return set;
  }
  return allow_downtime(std::min(wish_.max_pause, kFirstDowntime));
}

Result<void> DaemonLedSource::allow_downtime(Duration downtime) {
  downtime_ = downtime;
  return vmm::set_migration_settings(
      *monitor_, {.bytes_per_s_max = 0, .downtime_ms = static_cast<std::uint64_t>(ms(downtime))});
}

Result<void> DaemonLedSource::begin_copying() {
  auto channel = open_memory_();
  if (!channel) return Failure(std::move(channel).error());
  auto pump = Pump::start(*monitor_, *std::move(channel), Pump::Direction::kToChannel);
  if (!pump) return Failure(std::move(pump).error());
  pump_ = *std::move(pump);
  if (auto set = set_up_qemu(); !set) return set;
  if (auto logs = begin_log(); !logs) return logs;
  const auto begun = monitor_->execute("migrate", {{"uri", Pump::kUri}});
  if (!begun) return Failure(begun.error());
  return {};
}

Result<void> DaemonLedSource::copy_memory(const Progress& progress) {
  if (auto begun = begin_copying(); !begun) return begun;
  const Instant until = Instant::now() + wish_.patience;
  Instant relax_at = Instant::now() + kRelaxInterval;
  MotionProgress state{.phase = "memory"};
  while (true) {
    stood_ = Instant::now();
    const auto found = vmm::migration_status(*monitor_);
    if (!found) return Failure(found.error());
    report_.ram_bytes = state.ram_bytes = found->ram_bytes;
    state.remaining_bytes = found->remaining_bytes;
    bytes_per_s_ = found->bytes_per_s;
    if (found->status == "pre-switchover") return {};
    if (found->status != "none" && vmm::has_ended(found->status))
      return fail(EIO,
                  fmt::format("QEMU does not send the VM's memory: it {}: {}", found->status, found->why));
    if (const auto run_state = vmm::run_state(*monitor_); run_state) note_run_state(*run_state);
    if (!progress(state)) return fail(ECANCELED, "the motion was cancelled");
    if (Instant::now() >= relax_at && downtime_ < wish_.max_pause) {
      relax_at = Instant::now() + kRelaxInterval;
      if (auto set = allow_downtime(std::min<Duration>(2 * downtime_, wish_.max_pause)); !set) return set;
    }
    if (Instant::now() >= until) {
      return fail(
          ETIMEDOUT,
          fmt::format("the guest writes its memory faster than it can be sent: {} MiB are left after {} s, "
                      "which is too much for a pause of {} ms: allow a longer one with --max-pause",
                      found->remaining_bytes >> 20, duration_cast<seconds>(wish_.patience).count(),
                      ms(wish_.max_pause)));
    }
    auto said = there_.listen(Instant::now() + kMigrationPollInterval);
    if (!said) return Failure(std::move(said).error());
    if (*said) return there_.given_up(**said);
  }
}

Result<void> DaemonLedSource::catch_up(std::uint64_t logged_bytes, Stopwatch& watch) {
  if (auto fit = check_pages_fit(logged_bytes, bytes_per_s_); !fit) return fit;
  if (auto marked = side_.mark_pages(motion_.vm); !marked) return marked;
  report_.pages = watch.lap();
  const auto image = side_.pci_image(motion_.vm);
  if (!image) return Failure(image.error());
  image_ = *image;
  return {};
}

Result<void> DaemonLedSource::hand_over(const Progress& progress) {
  const Instant began = Instant::now();
  const Duration patience = std::max<Duration>(2 * wish_.max_pause, seconds(1));
  const auto goes_on = monitor_->execute("migrate-continue", {{"state", "pre-switchover"}});
  if (!goes_on) return Failure(goes_on.error());
  if (auto loaded = wait_for("loaded", patience, progress, in_pause()); !loaded) return loaded;
  given_ = Given::kAll;
  report_.memory = Instant::now() - began;
  return check_given_away(began + patience);
}

// The other host has everything, but QEMU here may not have released the VM yet.
Result<void> DaemonLedSource::check_given_away(Instant until) {
  while (true) {
    const auto found = vmm::migration_status(*monitor_);
    if (!found) return Failure(found.error());
    if (found->status == "completed") break;
    if (vmm::has_ended(found->status) || Instant::now() >= until)
      return fail(EIO, fmt::format("QEMU has not handed VM {} over: its migration is \"{}\": {}", motion_.vm,
                                   found->status, found->why));
    std::this_thread::sleep_for(kMigrationPollInterval);
  }
  const auto state = vmm::run_state(*monitor_);
  if (!state) return Failure(state.error());
  return check_given_away(*state);
}

Result<void> DaemonLedSource::check_given_away(const std::string& run_state) const {
  if (run_state == "postmigrate") return {};
  return fail(ErrorKind::kConflict,
              fmt::format("somebody else has changed VM {}: its QEMU (pid {}) is in state \"{}\"", motion_.vm,
                          pid_, run_state));
}

// If the QEMU has ended, nothing runs here.
Result<void> DaemonLedSource::check_untouched() {
  const auto state = vmm::run_state(*monitor_);
  return state ? check_given_away(*state) : Result<void>();
}

// A failure here does not change where the VM is.
std::string DaemonLedSource::leave() {
  const Instant began = Instant::now();
  static_cast<void>(side_.depart(motion_.vm));
  stop_what_runs_here();
  const auto runs = hear_that_it_runs(began);
  pump_.reset();
  const std::string where = fmt::format("VM {} is on host {} now, but ", motion_.vm, motion_.to);
  if (!runs) {
    return where + fmt::format(
                       "that host has not confirmed that it runs ({}): look there, and end its paused QEMU "
                       "here (pid {})",
                       runs.error().message, pid_);
  }
  const auto ended = quit(monitor_);
  if (ended) return {};
  return where +
         fmt::format("its QEMU here (pid {}) has to be ended by hand: {}", pid_, ended.error().message);
}

// An operator may have resumed the VM while the store was asked.
void DaemonLedSource::stop_what_runs_here() {
  const auto state = vmm::run_state(*monitor_);
  if (!state || *state != "running") return;
  const auto stopped = monitor_->execute("stop");
  log::error(
      "VM {}: somebody resumed it here, in QEMU (pid {}), when it was on host {} already: {}, and what it "
      "has done here since then is lost",
      motion_.vm, pid_, motion_.to,
      stopped ? "it was stopped here" : "end that QEMU, which does not stop it");
}

// Tries each step, even if the one before it failed.
Result<void> DaemonLedSource::undo(const std::string& why, const Progress&) {
  if (given_ != Given::kNothing) {
    if (auto ended = end_in_writing(); !ended) return ended;
    begun_ = false;
  }
  Result<void> outcome;
  const auto note = [&outcome](const auto& done) {
    if (!done && outcome) outcome = Failure(done.error());
  };
  static_cast<void>(there_.end(why));
  if (std::exchange(stopped_, false)) note(insist([this] { return side_.go_on(motion_.vm); }));
  if (std::exchange(set_up_, false)) note(take_qemu_back());
  pump_.reset();
  if (std::exchange(logs_, false)) note(side_.end_log(motion_.vm));
  if (std::exchange(begun_, false)) note(arbiter_.end(motion_));
  return outcome;
}

Result<void> DaemonLedSource::take_qemu_back() {
  static_cast<void>(renew(monitor_));
  auto cancelled = vmm::cancel_migration(*monitor_, Instant::now() + kQemuCancelPatience);
  for (const char* capability : kCapabilities) {
    static_cast<void>(
        vmm::set_migration_capability(*monitor_, capability, kept_capabilities_.contains(capability)));
  }
  auto set = vmm::set_migration_settings(*monitor_, kept_);
  static_cast<void>(renew(monitor_));
  auto runs = is_paused_ ? Result<void>() : continue_vm(*monitor_);
  if (!cancelled) return cancelled;
  return runs ? set : runs;
}

}  // namespace pvrdma::motion
