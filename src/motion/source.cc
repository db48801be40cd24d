#include "motion/source.h"

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

// A guest that writes its memory faster than it can be sent is slowed down.
constexpr const char* kCapabilities[] = {vmm::kPauseBeforeSwitchover, vmm::kAutoConverge};
constexpr Duration kPollInterval = milliseconds(2);
constexpr Duration kCancelPatience = seconds(10);
// QEMU stops the VM when what is left would take so long; where it does not come to that, it may take longer
// by and by.
constexpr Duration kFirstDowntime = milliseconds(30);
constexpr Duration kRelaxInterval = seconds(3);

std::int64_t ms(Duration duration) {
  return duration_cast<milliseconds>(duration).count();
}

}  // namespace

Result<MotionReport> Source::run(const Progress& progress) {
  began_ = Instant::now();
  const auto steps = [&]() -> Result<void> {
    if (auto done = open(); !done) return done;
    if (auto done = offer(Asked::kToGo); !done) return done;
    if (auto done = begin(); !done) return done;
    if (auto done = prepare(progress); !done) return done;
    if (auto done = is_led() ? follow_memory(progress) : copy_memory(progress); !done) return done;
    if (auto done = stop(progress); !done) return done;
    if (auto done = is_led() ? hand_over_led(progress) : hand_over(progress); !done) return done;
    return commit(progress);
  };
  if (auto done = steps(); !done) {
    Error why = undo(std::move(done).error(), progress);
    if (!over_) return Failure(std::move(why));
  }
  report_.left_to_do = leave();
  report_.took = Instant::now() - began_;
  return report_;
}

Result<void> Source::check() {
  if (auto done = open(); !done) return done;
  return offer(Asked::kWhether);
}

Result<void> Source::open() {
  auto qemu = open_qemu(wish_.monitor);
  if (!qemu) return Failure(std::move(qemu).error());
  if (auto settled = check_settled(*qemu, wish_.motion.vm); !settled) return settled;
  note_run_state(qemu->state);
  monitor_ = std::move(qemu->monitor);
  pid_ = monitor_->pid();
  auto settings = vmm::migration_settings(*monitor_);
  if (!settings) return Failure(std::move(settings).error());
  kept_ = *settings;
  auto capabilities = vmm::migration_capabilities(*monitor_);
  if (!capabilities) return Failure(std::move(capabilities).error());
  kept_capabilities_ = *std::move(capabilities);
  if (is_led()) return check_monitor_name();
  return {};
}

// Until it is moved its operator may let it run, or pause it.
void Source::note_run_state(const std::string& state) {
  if (state == "running" || state == "paused") is_paused_ = state == "paused";
}

Result<void> Source::offer(Asked asked) {
  const Offer offer{.motion = wish_.motion,
                    .patience = wish_.patience,
                    .is_question = asked == Asked::kWhether,
                    .leader = wish_.leader,
                    .is_paused = is_paused_};
  if (auto said = there_.say(to_json(offer)); !said) return said;
  const auto accepted = there_.expect("accepted", Instant::now() + calls::Conversation::kAnswerPatience);
  if (!accepted) return Failure(accepted.error());
  takes_draft_ = accepted->text.contains("draft");
  return {};
}

Result<void> Source::begin() {
  if (is_led()) {
    if (auto led = begin_led(); !led) return led;
  }
  // An answer that is lost is asked for again by end().
  begun_ = true;
  if (auto begun = arbiter_.begin(wish_.motion); !begun) {
    begun_ = begun.error().code == EAGAIN;
    return begun;
  }
  return there_.say({{"say", "begun"}});
}

Result<void> Source::wait_for(const char* what, Duration patience, const Progress& progress,
                              const MotionProgress& state) {
  const Instant until = Instant::now() + patience;
  while (true) {
    auto said = there_.expect(what, Instant::now() + milliseconds(100));
    if (said) return {};
    if (said.error().code != ETIMEDOUT) return Failure(std::move(said).error());
    const auto has_vmm = is_led() ? side_.has_vmm(wish_.motion.vm) : Result<bool>(true);
    if (has_vmm && !*has_vmm) return fail(EPIPE, fmt::format("the QEMU of VM {} has ended", wish_.motion.vm));
    if (!progress(state)) return fail(ECANCELED, "the motion was cancelled");
    if (Instant::now() >= until) return Failure(std::move(said).error());
  }
}

// Its PCI state is restored there while the VM still runs here: what has changed at the end is restored
// again.
Result<void> Source::prepare(const Progress& progress) {
  const Motion& motion = wish_.motion;
  if (auto ready = wait_for("qemu", wish_.patience, progress, {.phase = "waits for QEMU"}); !ready) {
    if (ready.error().code != ETIMEDOUT) return ready;
    if (is_led()) {
      return fail(ETIMEDOUT, fmt::format("on host {} libvirt has started no QEMU for VM {}: has virsh "
                                         "migrate begun?",
                                         motion.to, motion.vm));
    }
    return fail(ETIMEDOUT,
                fmt::format("on host {} no QEMU waits for VM {}: start one there with the arguments that "
                            "pvrdmactl vm qemu-args {} --restore prints",
                            motion.to, motion.vm, motion.vm));
  }
  const auto image = side_.pci_image(motion.vm);
  if (!image) return Failure(image.error());
  image_ = *image;
  std::vector<std::byte> draft;  // to be refused now, if it is to be
  if (takes_draft_) {
    auto made = side_.draft(motion.vm, image_);
    if (!made) return Failure(std::move(made).error());
    draft = *std::move(made);
  }
  if (auto said = there_.say({{"say", "pci"}, {"pci", to_json(image_)}}, draft); !said) return said;
  return wait_for("restored", calls::Conversation::kAnswerPatience, progress, {.phase = "waits for QEMU"});
}

Result<void> Source::set_up_qemu() {
  set_up_ = true;
  for (const char* capability : kCapabilities) {
    if (auto set = vmm::set_migration_capability(*monitor_, capability, true); !set) return set;
  }
  return allow_downtime(std::min(wish_.max_pause, kFirstDowntime));
}

Result<void> Source::allow_downtime(Duration downtime) {
  downtime_ = downtime;
  return vmm::set_migration_settings(
      *monitor_, {.bytes_per_s_max = 0, .downtime_ms = static_cast<std::uint64_t>(ms(downtime))});
}

Result<void> Source::copy_memory(const Progress& progress) {
  auto channel = open_memory_();
  if (!channel) return Failure(std::move(channel).error());
  auto pump = Pump::start(*monitor_, *std::move(channel), Pump::Direction::kToChannel);
  if (!pump) return Failure(std::move(pump).error());
  pump_ = *std::move(pump);
  if (auto set = set_up_qemu(); !set) return set;
  if (auto logs = side_.begin_log(wish_.motion.vm); !logs) return logs;
  logs_ = true;
  const auto begun = monitor_->execute("migrate", {{"uri", Pump::kUri}});
  if (!begun) return Failure(begun.error());
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
      return fail(ETIMEDOUT,
                  fmt::format("the guest writes its memory faster than it can be sent: {} MiB are left after "
                              "{} s, and a pause of {} ms has no room for them: allow a longer one with "
                              "--max-pause",
                              found->remaining_bytes >> 20, duration_cast<seconds>(wish_.patience).count(),
                              ms(wish_.max_pause)));
    }
    auto said = there_.listen(Instant::now() + kPollInterval);
    if (!said) return Failure(std::move(said).error());
    if (*said) return there_.given_up(**said);
  }
}

// QEMU has stopped the VM and waits.
Result<void> Source::stop(const Progress& progress) {
  const std::string& vm = wish_.motion.vm;
  if (!progress(in_pause())) return fail(ECANCELED, "the motion was cancelled");
  Instant began = Instant::now();
  const auto lap = [&began] {
    const Instant now = Instant::now();
    return now - std::exchange(began, now);
  };
  if (auto stopped = side_.stop(vm); !stopped) return stopped;
  stopped_ = true;
  report_.freeze = lap();
  const auto logged = side_.logged_bytes(vm);
  if (!logged) return Failure(logged.error());
  report_.page_bytes = *logged;
  if (is_led()) {
    refresh_image();
  } else {
    if (auto fit = check_pages_fit(*logged, bytes_per_s_); !fit) return fit;
    if (auto marked = side_.mark_pages(vm); !marked) return marked;
    report_.pages = lap();
    const auto image = side_.pci_image(vm);
    if (!image) return Failure(image.error());
    image_ = *image;
  }
  const auto state = side_.save(vm, image_);
  if (!state) return Failure(state.error());
  report_.state_bytes = state->size();
  state_sent_ = true;
  auto sent = there_.say({{"say", "state"}, {"paused", is_paused_}}, *state);
  report_.state = lap();
  return sent;
}

Result<void> Source::check_pages_fit(std::uint64_t bytes, std::uint64_t bytes_per_s) const {
  if (bytes_per_s == 0) return {};
  if (bytes / (bytes_per_s / 1000 + 1) <= static_cast<std::uint64_t>(ms(wish_.max_pause))) return {};
  return fail(E2BIG,
              fmt::format("peers of VM {} have written {} MiB of its memory meanwhile: at {} MB/s a pause of "
                          "{} ms has no room for them: allow a longer one with --max-pause",
                          wish_.motion.vm, bytes >> 20, bytes_per_s / 1'000'000, ms(wish_.max_pause)));
}

Result<void> Source::hand_over(const Progress& progress) {
  const Instant began = Instant::now();
  const Duration patience = std::max<Duration>(2 * wish_.max_pause, seconds(1));
  const auto goes_on = monitor_->execute("migrate-continue", {{"state", "pre-switchover"}});
  if (!goes_on) return Failure(goes_on.error());
  if (auto loaded = wait_for("loaded", patience, progress, in_pause()); !loaded) return loaded;
  report_.memory = Instant::now() - began;
  return check_given_away(began + patience);
}

MotionProgress Source::in_pause() const {
  return {.phase = "pause", .ram_bytes = report_.ram_bytes};
}

// That the other host has everything does not say that QEMU here has let go of it.
Result<void> Source::check_given_away(Instant until) {
  while (true) {
    const auto found = vmm::migration_status(*monitor_);
    if (!found) return Failure(found.error());
    if (found->status == "completed") break;
    if (vmm::has_ended(found->status) || Instant::now() >= until)
      return fail(EIO, fmt::format("QEMU has not given VM {} away: it is \"{}\": {}", wish_.motion.vm,
                                   found->status, found->why));
    std::this_thread::sleep_for(kPollInterval);
  }
  const auto state = vmm::run_state(*monitor_);
  if (!state) return Failure(state.error());
  return check_untouched(*state);
}

Result<void> Source::check_untouched(const std::string& run_state) const {
  if (run_state == "postmigrate") return {};
  return fail(EBUSY, fmt::format("somebody else has changed VM {}: its QEMU (pid {}) is in state \"{}\"",
                                 wish_.motion.vm, pid_, run_state));
}

// The store may have done it although its answer was lost: it is asked until it says. What it will never do
// is left to end_in_writing(), as is a VM that somebody lets run here meanwhile.
Result<void> Source::commit(const Progress& progress) {
  const Instant began = Instant::now();
  if (!progress({.phase = "commit", .ram_bytes = report_.ram_bytes}))
    return fail(ECANCELED, "the motion was cancelled");
  while (true) {
    auto committed = arbiter_.commit(wish_.motion);
    if (committed) break;
    if (committed.error().code != EAGAIN) return committed;
    if (!may_ask_again(committed.error())) return committed;
    if (is_led()) continue;
    const auto state = vmm::run_state(*monitor_);
    if (!state) continue;  // a QEMU that has gone lets nothing run
    if (auto untouched = check_untouched(*state); !untouched) return untouched;
  }
  over_ = true;
  report_.commit = Instant::now() - began;
  return {};
}

// After a pause. False: the daemon ends.
bool Source::may_ask_again(const Error& why) {
  if (waiting_log_.allow(Instant::now()))
    log::warn("VM {}: it stands until the store says where it is: {}", wish_.motion.vm, why.message);
  if (stopping_()) return false;
  std::this_thread::sleep_for(Arbiter::kPause);
  return true;
}

// The VM is there. What fails here changes nothing about that: it is what has to be done by hand.
std::string Source::leave() {
  const Instant began = Instant::now();
  static_cast<void>(side_.depart(wish_.motion.vm));
  if (!is_led()) stop_what_runs_here();
  const auto runs = lost_.empty()
                        ? there_.expect("runs", Instant::now() + calls::Conversation::kAnswerPatience)
                        : Result<calls::Said>(fail(ECONNABORTED, lost_));
  const Instant now = Instant::now();
  report_.go_on = now - began;
  report_.pause = now - stood_;
  pump_.reset();
  if (is_led()) {
    static_cast<void>(side_.end_with_vmm(wish_.motion.vm));
    report_.is_lost = !lost_.empty();
    if (report_.is_lost) {
      return fmt::format("VM {} is on host {} now, without its connections ({}): reload its driver there",
                         wish_.motion.vm, wish_.motion.to, lost_);
    }
    if (runs) return {};
    return fmt::format("VM {} is on host {} now, but that it runs was not heard ({}): look there",
                       wish_.motion.vm, wish_.motion.to, runs.error().message);
  }
  static_cast<void>(renew(monitor_));
  const auto quit = runs ? monitor_->execute("quit") : Result<vmm::Json>(vmm::Json());
  const std::string where = fmt::format("VM {} is on host {} now, but ", wish_.motion.vm, wish_.motion.to);
  if (!runs) {
    return where + fmt::format(
                       "that it runs was not heard ({}): look there, and end its QEMU here (pid {}), "
                       "which stands",
                       runs.error().message, pid_);
  }
  if (quit) return {};
  return where +
         fmt::format("its QEMU here (pid {}) has to be ended by hand: {}", pid_, quit.error().message);
}

// Somebody may have let it run while the store was asked.
void Source::stop_what_runs_here() {
  const auto state = vmm::run_state(*monitor_);
  if (!state || *state != "running") return;
  const auto stopped = monitor_->execute("stop");
  log::error(
      "VM {}: somebody let it run here, in QEMU (pid {}), when it was on host {} already: {}, and what it "
      "did "
      "here since is lost",
      wish_.motion.vm, pid_, wish_.motion.to,
      stopped ? "it was stopped here" : "end that QEMU, which does not stop it");
}

Error Source::undo(Error why, const Progress& progress) {
  if (monitor_ == nullptr || (!begun_ && !logs_)) return why;
  if (const auto undone = is_led() ? undo_all_led(why.message, progress) : undo_all(why.message); undone) {
    why.message += fmt::format("; VM {} goes on on host {}", wish_.motion.vm, wish_.motion.from);
  } else if (!over_) {
    why.message += fmt::format("; on the way back to QEMU (pid {}): {}", pid_, undone.error().message);
  }
  return why;
}

// The other host may be ready, and this one's life may look over to it: so it is in writing that the VM
// stays, before it does.
Result<void> Source::end_in_writing() {
  while (true) {
    auto ended = arbiter_.end(wish_.motion);
    if (ended) return ended;
    if (ended.error().code == EALREADY) {
      over_ = true;
      return ended;
    }
    if (!may_ask_again(ended.error())) return ended;
  }
}

// Each step is tried whatever became of the one before it.
Result<void> Source::undo_all(const std::string& why) {
  if (state_sent_) {
    if (auto ended = end_in_writing(); !ended) return ended;
    begun_ = false;
  }
  Result<void> outcome;
  const auto note = [&outcome](const auto& done) {
    if (!done && outcome) outcome = Failure(done.error());
  };
  static_cast<void>(there_.say(calls::over(why)));
  if (std::exchange(stopped_, false)) note(insist([this] { return side_.go_on(wish_.motion.vm); }));
  if (std::exchange(set_up_, false)) note(take_qemu_back());
  pump_.reset();
  if (std::exchange(logs_, false)) note(side_.end_log(wish_.motion.vm));
  if (std::exchange(begun_, false)) note(arbiter_.end(wish_.motion));
  return outcome;
}

Result<void> Source::take_qemu_back() {
  static_cast<void>(renew(monitor_));
  auto cancelled = vmm::cancel_migration(*monitor_, Instant::now() + kCancelPatience);
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
