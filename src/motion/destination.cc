#include "motion/destination.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <optional>
#include <thread>
#include <vector>

#include "base/log.h"
#include "motion/insist.h"
#include "motion/qemu.h"

namespace pvrdma::motion {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kPollInterval = milliseconds(1);
constexpr Duration kQemuPollInterval = milliseconds(50);
constexpr Duration kMonitorPatience = seconds(10);  // of a QEMU that has come to the adapter
constexpr Duration kContinuePatience = seconds(5);
// A source that gives up says so to the store at once. One that is silent for so long has died, even if its
// next process has its lease.
constexpr Duration kSilence = seconds(5);
// What the VM sends may come to a peer before the news of where the VM is.
constexpr milliseconds kNudges[] = {milliseconds(5), milliseconds(20), milliseconds(50), milliseconds(100),
                                    milliseconds(250)};

}  // namespace

Result<ArrivalReport> Destination::run() {
  using Steps = std::vector<Result<void> (Destination::*)()>;
  const Steps steps =
      is_led() ? Steps{&Destination::wait_for_qemu, &Destination::prepare_led,
                       &Destination::load,          &Destination::wait_for_memory,
                       &Destination::take_pages,    &Destination::decide,
                       &Destination::go_on}
               : Steps{&Destination::wait_for_qemu,   &Destination::receive_memory, &Destination::load,
                       &Destination::wait_for_memory, &Destination::decide,         &Destination::go_on};
  for (const auto step : steps) {
    auto done = (this->*step)();
    if (done) continue;
    Error why = std::move(done).error();
    if (is_here_) {
      why.message +=
          fmt::format("; VM {} is on this host, and its QEMU (pid {}) is left as it is: continue it by hand",
                      offer_.motion.vm, report_.pid);
      return Failure(std::move(why));
    }
    static_cast<void>(there_.say(calls::refusal(why.message)));
    if (is_led()) return give_up_led(std::move(why));
    pump_.reset();
    if (took_qemu_) {
      why.message += "; " + end_qemu(monitor_);
    }
    return Failure(std::move(why));
  }
  return report_;
}

// The other host has the store told that the VM comes here, and only then there is an adapter for QEMU.
Result<void> Destination::wait_for_qemu() {
  if (auto begun = there_.expect("begun", Instant::now() + calls::Conversation::kAnswerPatience); !begun)
    return Failure(std::move(begun).error());
  Instant until = Instant::now() + offer_.patience + calls::Conversation::kAnswerPatience;
  while (true) {
    auto found = look_for_qemu();
    if (found) return there_.say({{"say", "qemu"}});
    if (found.error().code != ENOENT && found.error().code != ECONNREFUSED) return found;
    if (has_come_) until = std::min(until, *has_come_ + kMonitorPatience);
    if (Instant::now() >= until || stopping_()) return found;
    auto said = there_.listen(Instant::now() + kQemuPollInterval);
    if (!said) return Failure(std::move(said).error());
    if (*said) return there_.given_up(**said);
  }
}

// ENOENT, ECONNREFUSED: not yet.
Result<void> Destination::look_for_qemu() {
  const auto expected = side_.is_expected(offer_.motion.vm);
  if (!expected) return Failure(expected.error());
  if (!*expected) return fail(ENOENT, "no QEMU has connected to the adapter");
  if (!has_come_) has_come_ = Instant::now();
  const auto path = find_monitor_();
  if (!path) return Failure(path.error());
  auto qemu = open_qemu(*path);
  if (!qemu) return Failure(std::move(qemu).error());
  report_.pid = qemu->monitor->pid();
  if (is_led() && qemu->state != "inmigrate")
    return fail(EBUSY, fmt::format("the QEMU at {} does not wait for VM {}: it is in state \"{}\"",
                                   qemu->monitor->path(), offer_.motion.vm, qemu->state));
  if (!is_led()) {
    if (auto waits = check_waits(*qemu, offer_.motion.vm); !waits) return waits;
  }
  monitor_ = std::move(qemu->monitor);
  place_ = qemu->place;
  return {};
}

Result<void> Destination::restore() {
  return vmm::restore(*monitor_, place_, image_,
                      [this] { return side_.write_own_msix_table(offer_.motion.vm, image_); });
}

// What the saved adapter is to be refused for is known before the VM stands anywhere.
Result<void> Destination::prepare() {
  there_.allow_bytes();
  auto said = there_.expect("pci", Instant::now() + calls::Conversation::kAnswerPatience);
  if (!said) return Failure(std::move(said).error());
  const auto image = said->text.contains("pci")
                         ? pci_image_of(said->text.at("pci"))
                         : Result<vmm::PciImage>(fail(EPROTO, "it sends no PCI state"));
  if (!image) return Failure(image.error());
  image_ = *image;
  if (said->bytes.empty() && !is_led()) return {};  // of an older daemon
  if (const auto tried = side_.load(offer_.motion.vm, std::move(said->bytes)); !tried)
    return Failure(tried.error());
  is_loaded_ = true;
  if (auto unloaded = side_.unload(offer_.motion.vm); !unloaded) return unloaded;
  is_loaded_ = false;
  return {};
}

Result<void> Destination::receive_memory() {
  took_qemu_ = true;
  if (auto came = prepare(); !came) return came;
  if (auto restored = restore(); !restored) return restored;
  if (auto set = vmm::set_migration_capability(*monitor_, vmm::kPauseBeforeSwitchover, true); !set)
    return set;
  if (auto told = there_.say({{"say", "restored"}}); !told) return told;
  auto channel = take_memory_(Instant::now() + calls::Conversation::kAnswerPatience);
  if (!channel) return Failure(std::move(channel).error());
  auto pump = Pump::start(*monitor_, *std::move(channel), Pump::Direction::kToQemu);
  if (!pump) return Failure(std::move(pump).error());
  pump_ = *std::move(pump);
  // One that was started without -S would run the VM as soon as it has it.
  if (const auto stands = monitor_->execute("stop"); !stands) return Failure(stands.error());
  const auto begun = monitor_->execute("migrate-incoming", {{"uri", Pump::kUri}});
  if (!begun) return Failure(begun.error());
  return {};
}

// The state comes when the VM stands there, while QEMU still sends the rest of its memory.
Result<void> Destination::load() {
  std::optional<calls::Said> said;
  while (!said) {
    auto heard = there_.listen(Instant::now() + seconds(1));
    if (!heard) return Failure(std::move(heard).error());
    said = *std::move(heard);
    if (said) break;
    if (stopping_()) return fail(ECANCELED, "this daemon stops");
    const auto found = vmm::migration_status(*monitor_);
    if (!found) return Failure(found.error());
    if (found->status == "failed") return fail(EIO, fmt::format("QEMU does not take the VM: {}", found->why));
  }
  if (!said->is("state")) return there_.given_up(*said);
  const Instant began = Instant::now();
  const auto paused = said->text.find("paused");
  if (paused != said->text.end() && paused->is_boolean()) is_paused_ = paused->get<bool>();
  const auto image = side_.load(offer_.motion.vm, std::move(said->bytes));
  if (!image) return Failure(image.error());
  is_loaded_ = true;
  if (*image != image_) {
    image_ = *image;
    if (auto restored = restore(); !restored) return restored;
  }
  report_.load = Instant::now() - began;
  return {};
}

Result<void> Destination::wait_for_memory() {
  const Instant until = Instant::now() + calls::Conversation::kAnswerPatience;
  while (true) {
    const auto found = vmm::migration_status(*monitor_);
    if (!found) return Failure(found.error());
    if (found->status == "completed") break;
    if (found->status != "none" && vmm::has_ended(found->status))
      return fail(EIO, fmt::format("QEMU does not take the VM: {}", found->why));
    if (Instant::now() >= until)
      return fail(ETIMEDOUT, fmt::format("QEMU has not taken the VM yet: \"{}\"", found->status));
    // A source that has died may have sent everything.
    const auto said = there_.listen(Instant::now() + kPollInterval);
    if (said && *said) return there_.given_up(**said);
    if (stopping_()) return fail(ECANCELED, "this daemon stops");
    if (!said) std::this_thread::sleep_for(kPollInterval);
  }
  if (is_led()) return {};
  if (auto same = side_.check_own(offer_.motion.vm, image_); !same) return same;
  static_cast<void>(there_.say({{"say", "loaded"}}));  // a source that has died hears nothing
  return {};
}

// From here on the VM may be here whatever the other host says, and only the arbiter knows.
Result<void> Destination::decide() {
  const Instant seldom_at = Instant::now() + seconds(2);
  std::optional<Instant> silent_since;
  Instant look_at = Instant::now() + kQemuPollInterval;
  log::LogLimiter waiting_log(1, seconds(10));
  while (true) {
    const auto verdict = arbiter_.look(offer_.motion);
    if (verdict && *verdict == Arbiter::Verdict::kThere) {
      is_here_ = true;
      return {};
    }
    if (verdict && *verdict == Arbiter::Verdict::kStays) return fail(ECANCELED, "the VM stays where it was");
    const Instant now = Instant::now();
    const auto gone = arbiter_.source_is_gone(offer_.motion);
    const bool is_alone = (gone && *gone) || (silent_since && now >= *silent_since + kSilence);
    // libvirt says it by letting it run.
    LedVm vm = LedVm::kUnknown;
    if (is_led() && now >= look_at) {
      vm = look();
      look_at = now + kQemuPollInterval;
    }
    if (vm == LedVm::kGone)
      return fail(ECONNABORTED,
                  fmt::format("the QEMU of VM {} here (pid {}) has ended", offer_.motion.vm, report_.pid));
    if (verdict && (is_led() ? vm == LedVm::kRuns : is_alone)) {
      const auto committed = arbiter_.commit(offer_.motion);
      if (committed) {
        log::warn("VM {}: its host {} {}: it goes on here", offer_.motion.vm, offer_.motion.from,
                  is_led() ? "has not said so, and libvirt lets it run" : "has died");
        continue;
      }
      if (waiting_log.allow(now))
        log::warn("VM {}: it stands until the store says where it is: {}", offer_.motion.vm,
                  committed.error().message);
    }
    if (is_led() && is_alone && vm == LedVm::kStands && waiting_log.allow(now))
      log::warn("VM {}: all of it is here, and it stands until libvirt lets it go on: virsh resume {}",
                offer_.motion.vm, offer_.motion.vm);
    if (stopping_()) return stop_deciding();
    const Duration pause = now < seldom_at ? kPollInterval : Arbiter::kPause;
    const auto said = there_.listen(now + pause);
    if (said) continue;
    if (!silent_since) silent_since = now;
    std::this_thread::sleep_for(pause);
  }
}

// This daemon ends, and the VM may be here.
Result<void> Destination::stop_deciding() {
  if (is_led())
    return fail(EAGAIN,
                fmt::format("this daemon stops, and where VM {} is libvirt decides", offer_.motion.vm));
  const auto ended = arbiter_.end(offer_.motion);
  if (ended) return fail(ECANCELED, "this daemon stops");
  if (ended.error().code == EALREADY) {
    is_here_ = true;
    return {};
  }
  took_qemu_ = false;  // whose it is nobody knows now
  return fail(EAGAIN, fmt::format("this daemon stops, and the store does not say where VM {} is: {}",
                                  offer_.motion.vm, ended.error().message));
}

Result<void> Destination::go_on() {
  const Instant began = Instant::now();
  const std::string& vm = offer_.motion.vm;
  // It is nowhere else.
  if (auto works = insist([&] { return side_.arrive(vm); }); !works) return works;
  if (!is_paused_) {
    const auto continued = insist(
        [&] {
          static_cast<void>(renew(monitor_));
          return monitor_->execute("cont");
        },
        kContinuePatience);
    if (!continued) return Failure(continued.error());
  }
  report_.go_on = Instant::now() - began;
  auto resumed = side_.resume(vm);
  static_cast<void>(there_.say({{"say", "runs"}}));
  for (const milliseconds after : kNudges) {
    std::this_thread::sleep_for(began + after - Instant::now());
    static_cast<void>(side_.nudge(vm));
  }
  if (!is_led())
    static_cast<void>(vmm::set_migration_capability(*monitor_, vmm::kPauseBeforeSwitchover, false));
  return resumed;
}

}  // namespace pvrdma::motion
