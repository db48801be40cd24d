#include "motion/source.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <thread>
#include <vector>

#include "motion/daemon_led_source.h"
#include "motion/libvirt_led_source.h"
#include "motion/qemu.h"

namespace pvrdma::motion {
namespace {

using std::chrono::milliseconds;

}  // namespace

std::unique_ptr<Source> Source::create(Motion motion, MotionWish wish, AdapterSide& side, Arbiter& arbiter,
                                       calls::Conversation& there, OpenMemory open_memory,
                                       Stopping stopping) {
  if (wish.leader == Leader::kLibvirt)
    return std::make_unique<LibvirtLedSource>(std::move(motion), std::move(wish), side, arbiter, there,
                                              std::move(stopping));
  return std::make_unique<DaemonLedSource>(std::move(motion), std::move(wish), side, arbiter, there,
                                           std::move(open_memory), std::move(stopping));
}

Result<MotionReport> Source::run(const Progress& progress) {
  const Instant began = Instant::now();
  if (auto done = steps(progress); !done) {
    Error why = undone(std::move(done).error(), progress);
    if (given_ != Given::kVm) return Failure(std::move(why));
  }
  report_.left_to_do = leave();
  report_.took = Instant::now() - began;
  return report_;
}

Result<void> Source::steps(const Progress& progress) {
  if (auto done = open(); !done) return done;
  const auto acceptance = offer(Asked::kToGo);
  if (!acceptance) return Failure(acceptance.error());
  if (auto done = begin(); !done) return done;
  if (auto done = prepare(*acceptance, progress); !done) return done;
  if (auto done = copy_memory(progress); !done) return done;
  if (auto done = stop(progress); !done) return done;
  if (auto done = hand_over(progress); !done) return done;
  return commit(progress);
}

Result<void> Source::check() {
  if (auto done = open(); !done) return done;
  const auto acceptance = offer(Asked::kWhether);
  return acceptance ? Result<void>() : Failure(acceptance.error());
}

Result<void> Source::open() {
  auto qemu = open_qemu(wish_.monitor);
  if (!qemu) return Failure(std::move(qemu).error());
  if (auto settled = check_settled(*qemu, motion_.vm); !settled) return settled;
  note_run_state(qemu->state);
  monitor_ = std::move(qemu->monitor);
  pid_ = monitor_->pid();
  return check_qemu();
}

// Until the VM is moved, its operator may resume or pause it.
void Source::note_run_state(const std::string& state) {
  if (state == "running" || state == "paused") is_paused_ = state == "paused";
}

Result<Acceptance> Source::offer(Asked asked) {
  const Offer offer{.motion = motion_,
                    .patience = wish_.patience,
                    .is_question = asked == Asked::kWhether,
                    .leader = wish_.leader,
                    .is_paused = is_paused_};
  if (auto said = say_offer(there_, offer); !said) return Failure(std::move(said).error());
  const auto accepted = there_.expect("accepted", Instant::now() + calls::Conversation::kAnswerPatience);
  if (!accepted) return Failure(accepted.error());
  Acceptance acceptance;
  if (auto read = accepted->read("the acceptance", acceptance); !read)
    return Failure(std::move(read).error());
  return acceptance;
}

Result<void> Source::begin() {
  if (auto ready = before_begin(); !ready) return ready;
  // If the answer is lost, Arbiter::end() asks again.
  begun_ = true;
  if (auto begun = arbiter_.begin(motion_); !begun) {
    begun_ = begun.error().kind == ErrorKind::kUnavailable;
    return begun;
  }
  return there_.say("begun");
}

Result<void> Source::wait_for(const char* what, Duration patience, const Progress& progress,
                              const MotionProgress& state) {
  const Instant until = Instant::now() + patience;
  while (true) {
    auto said = there_.expect(what, Instant::now() + milliseconds(100));
    if (said) return {};
    if (said.error().code != ETIMEDOUT) return Failure(std::move(said).error());
    if (auto lives = check_qemu_lives(); !lives) return lives;
    if (!progress(state)) return fail(ECANCELED, "the motion was cancelled");
    if (Instant::now() >= until) return Failure(std::move(said).error());
  }
}

// The PCI state is restored there while the VM still runs here. Whatever changes until the end is restored
// again.
Result<void> Source::prepare(const Acceptance& acceptance, const Progress& progress) {
  if (auto ready = wait_for("qemu", wish_.patience, progress, {.phase = "waits for QEMU"}); !ready)
    return ready.error().code == ETIMEDOUT ? Result<void>(no_qemu_there()) : ready;
  const auto image = side_.pci_image(motion_.vm);
  if (!image) return Failure(image.error());
  image_ = *image;
  std::vector<std::byte> draft;  // if the other host refuses the state, it refuses now
  if (acceptance.takes_draft) {
    auto made = side_.save(motion_.vm, AdapterSide::Save::kDraft, image_);
    if (!made) return Failure(std::move(made).error());
    draft = *std::move(made);
  }
  if (auto said = there_.say("pci", PciMessage{image_}, draft); !said) return said;
  return wait_for("restored", calls::Conversation::kAnswerPatience, progress, {.phase = "waits for QEMU"});
}

Result<void> Source::stop(const Progress& progress) {
  const std::string& vm = motion_.vm;
  if (!progress(in_pause())) return fail(ECANCELED, "the motion was cancelled");
  Stopwatch watch;
  if (auto stopped = side_.stop(vm); !stopped) return stopped;
  stopped_ = true;
  report_.freeze = watch.lap();
  const auto logged = side_.logged_bytes(vm);
  if (!logged) return Failure(logged.error());
  report_.page_bytes = *logged;
  if (auto current = catch_up(*logged, watch); !current) return current;
  const auto state = side_.save(vm, AdapterSide::Save::kState, image_);
  if (!state) return Failure(state.error());
  report_.state_bytes = state->size();
  given_ = Given::kState;
  auto sent = there_.say("state", StateMessage{is_paused_}, *state);
  report_.state = watch.lap();
  return sent;
}

Result<void> Source::begin_log() {
  auto begun = side_.begin_log(motion_.vm);
  logs_ = begun.has_value();
  return begun;
}

Result<void> Source::check_pages_fit(std::uint64_t bytes, std::uint64_t bytes_per_s) const {
  if (bytes_per_s == 0) return {};
  const auto max_pause_ms = std::chrono::duration_cast<milliseconds>(wish_.max_pause).count();
  if (bytes / (bytes_per_s / 1000 + 1) <= static_cast<std::uint64_t>(max_pause_ms)) return {};
  return fail(
      E2BIG,
      fmt::format("peers of VM {} have written {} MiB of its memory in the meantime: at {:.1f} MB/s this "
                  "is too much for a pause of {} ms: allow a longer one with --max-pause",
                  motion_.vm, bytes >> 20, static_cast<double>(bytes_per_s) / 1e6, max_pause_ms));
}

MotionProgress Source::in_pause() const {
  return {.phase = "pause", .ram_bytes = report_.ram_bytes};
}

// If an answer is lost, the store may have committed. So it is asked until it answers. end_in_writing()
// handles a commit that the store refuses, and a VM that an operator has resumed here in the meantime.
Result<void> Source::commit(const Progress& progress) {
  const Instant began = Instant::now();
  if (!progress({.phase = "commit", .ram_bytes = report_.ram_bytes}))
    return fail(ECANCELED, "the motion was cancelled");
  while (true) {
    auto committed = arbiter_.commit(motion_);
    if (committed) break;
    if (committed.error().kind != ErrorKind::kUnavailable) return committed;
    if (!may_ask_again(committed.error())) return committed;
    if (auto untouched = check_untouched(); !untouched) return untouched;
  }
  given_ = Given::kVm;
  report_.commit = Instant::now() - began;
  return {};
}

// Waits for a pause. Returns false if the daemon ends.
bool Source::may_ask_again(const Error& why) {
  if (waiting_log_.allow(Instant::now()))
    log::warn("VM {}: it stays paused until the store says where it is: {}", motion_.vm, why.message);
  if (stopping_()) return false;
  std::this_thread::sleep_for(Arbiter::kPause);
  return true;
}

Result<calls::Said> Source::hear_that_it_runs(Instant since) {
  auto runs = there_.expect("runs", Instant::now() + calls::Conversation::kAnswerPatience);
  const Instant now = Instant::now();
  report_.go_on = now - since;
  report_.pause = now - stood_;
  return runs;
}

Error Source::undone(Error why, const Progress& progress) {
  if (monitor_ == nullptr || (!begun_ && !logs_)) return why;
  if (const auto done = undo(why.message, progress); done) {
    why.message += fmt::format("; VM {} stays on host {}", motion_.vm, motion_.from);
  } else if (given_ != Given::kVm) {
    why.message += fmt::format("; going back to QEMU (pid {}) failed: {}", pid_, done.error().message);
  }
  return why;
}

// The other host may have everything, and may take this daemon for dead. So the store must record that the VM
// stays before the VM runs here again.
Result<void> Source::end_in_writing() {
  while (true) {
    auto ended = arbiter_.end(motion_);
    if (ended) return ended;
    if (ended.error().code == EALREADY) {
      given_ = Given::kVm;
      return ended;
    }
    if (!may_ask_again(ended.error())) return ended;
  }
}

}  // namespace pvrdma::motion
