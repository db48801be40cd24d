#include "motion/destination.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <thread>

#include "motion/daemon_led_destination.h"
#include "motion/insist.h"
#include "motion/libvirt_led_destination.h"
#include "vmm/migration.h"

namespace pvrdma::motion {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kArrivalPollInterval = milliseconds(1);
constexpr Duration kQemuPollInterval = milliseconds(50);
constexpr Duration kMonitorPatience = seconds(10);  // for a QEMU that has connected to the adapter
// A source that gives up tells the store at once. A source that is silent for this long has died, even if its
// next process holds its lease.
constexpr Duration kSourceSilence = seconds(5);
// Packets of the VM may reach a peer before the peer knows where the VM is. So they are sent again at these
// times.
constexpr milliseconds kNudges[] = {milliseconds(5), milliseconds(20), milliseconds(50), milliseconds(100),
                                    milliseconds(250)};

}  // namespace

std::unique_ptr<Destination> Destination::create(Offer offer, FindMonitor find_monitor, AdapterSide& side,
                                                 Arbiter& arbiter, calls::Conversation& there,
                                                 TakeMemory take_memory, Stopping stopping) {
  if (offer.leader == Leader::kLibvirt)
    return std::make_unique<LibvirtLedDestination>(std::move(offer), std::move(find_monitor), side, arbiter,
                                                   there, std::move(stopping));
  return std::make_unique<DaemonLedDestination>(std::move(offer), std::move(find_monitor), side, arbiter,
                                                there, std::move(take_memory), std::move(stopping));
}

Result<ArrivalReport> Destination::run() {
  auto done = steps();
  if (done) return report_;
  Error why = std::move(done).error();
  if (!is_here_) {
    static_cast<void>(there_.refuse(why.message));
    return give_up(std::move(why));
  }
  why.message +=
      fmt::format("; VM {} is on this host, and its QEMU (pid {}) is left as it is: continue it by hand",
                  offer_.motion.vm, report_.pid);
  return Failure(std::move(why));
}

Result<void> Destination::steps() {
  if (auto done = wait_for_qemu(); !done) return done;
  if (auto done = prepare(); !done) return done;
  if (auto done = load(); !done) return done;
  if (auto done = wait_for_memory(); !done) return done;
  if (auto done = complete(); !done) return done;
  if (auto done = decide(); !done) return done;
  return go_on();
}

// QEMU can connect to an adapter only after the other host has told the store that the VM comes here.
Result<void> Destination::wait_for_qemu() {
  if (auto begun = there_.expect("begun", Instant::now() + calls::Conversation::kAnswerPatience); !begun)
    return Failure(std::move(begun).error());
  Instant until = Instant::now() + offer_.patience + calls::Conversation::kAnswerPatience;
  while (true) {
    auto found = look_for_qemu();
    if (found) return there_.say("qemu");
    if (found.error().kind != ErrorKind::kNotFound && found.error().code != ECONNREFUSED) return found;
    if (has_come_) until = std::min(until, *has_come_ + kMonitorPatience);
    if (Instant::now() >= until || stopping_()) return found;
    auto said = there_.listen(Instant::now() + kQemuPollInterval);
    if (!said) return Failure(std::move(said).error());
    if (*said) return there_.given_up(**said);
  }
}

// kNotFound, ECONNREFUSED: no QEMU is there yet.
Result<void> Destination::look_for_qemu() {
  const auto clients = side_.clients(offer_.motion.vm);
  if (!clients && clients.error().kind != ErrorKind::kNotFound) return Failure(clients.error());
  if (!clients || !clients->awaits_vm)
    return fail(ErrorKind::kNotFound, "no QEMU has connected to the adapter");
  if (!has_come_) has_come_ = Instant::now();
  const auto path = find_monitor_();
  if (!path) return Failure(path.error());
  auto qemu = open_qemu(*path);
  if (!qemu) return Failure(std::move(qemu).error());
  report_.pid = qemu->monitor->pid();
  if (auto waits = check_waits(*qemu); !waits) return waits;
  monitor_ = std::move(qemu->monitor);
  place_ = qemu->place;
  return {};
}

// Not while QEMU loads the VM's devices: the PCI address port is one of them.
Result<void> Destination::restore_pci() {
  auto done = vmm::restore(*monitor_, place_, image_, [this] {
    return side_.write_msix_table(offer_.motion.vm, AdapterSide::Vmm::kOwn, image_);
  });
  if (done) restored_ = image_;
  return done;
}

Result<void> Destination::restore_newest_pci() {
  if (restored_ == image_) return {};
  const Instant began = Instant::now();
  auto done = restore_pci();
  report_.load += Instant::now() - began;
  return done;
}

Result<std::vector<std::byte>> Destination::receive_pci_image() {
  there_.allow_bytes();
  auto said = there_.expect("pci", Instant::now() + calls::Conversation::kAnswerPatience);
  if (!said) return Failure(std::move(said).error());
  PciMessage message;
  if (auto read = said->read("the PCI state", message); !read) return Failure(std::move(read).error());
  image_ = message.image;
  return std::move(said->bytes);
}

Result<void> Destination::try_draft(std::vector<std::byte> draft) {
  if (const auto tried = side_.load(offer_.motion.vm, std::move(draft)); !tried)
    return Failure(tried.error());
  is_loaded_ = true;
  if (auto unloaded = side_.unload(offer_.motion.vm); !unloaded) return unloaded;
  is_loaded_ = false;
  return {};
}

// The state arrives when the VM is paused there, while QEMU still sends the rest of its memory.
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
  StateMessage message;
  if (auto read = said->read("the message of the state", message); !read) return read;
  is_paused_ = message.is_paused.value_or(is_paused_);
  const auto image = side_.load(offer_.motion.vm, std::move(said->bytes));
  if (!image) return Failure(image.error());
  is_loaded_ = true;
  image_ = *image;
  report_.load = Instant::now() - began;
  return {};
}

Result<void> Destination::wait_for_memory() {
  const Instant until = Instant::now() + calls::Conversation::kAnswerPatience;
  while (true) {
    const auto found = vmm::migration_status(*monitor_);
    if (!found) return Failure(found.error());
    if (found->status == "completed") return {};
    if (found->status != "none" && vmm::has_ended(found->status))
      return fail(EIO, fmt::format("QEMU does not take the VM: {}", found->why));
    if (Instant::now() >= until)
      return fail(ETIMEDOUT, fmt::format("QEMU has not taken the VM yet: \"{}\"", found->status));
    // A source that has died may still have sent everything.
    const auto said = there_.listen(Instant::now() + kArrivalPollInterval);
    if (said && *said) return there_.given_up(**said);
    if (stopping_()) return fail(ECANCELED, "this daemon stops");
    if (!said) std::this_thread::sleep_for(kArrivalPollInterval);
  }
}

Result<void> Destination::say_loaded() {
  if (auto restored = restore_newest_pci(); !restored) return restored;
  if (auto same = side_.check_pci(offer_.motion.vm, AdapterSide::Vmm::kOwn, image_); !same) return same;
  static_cast<void>(there_.say("loaded"));  // a source that has died does not hear it
  return {};
}

// From here on the VM may belong to this host whatever the other host says. Only the arbiter knows.
Result<void> Destination::decide() {
  const Instant seldom_at = Instant::now() + seconds(2);
  std::optional<Instant> silent_since;
  while (true) {
    const auto verdict = arbiter_.look(offer_.motion);
    if (verdict && *verdict == Arbiter::Verdict::kThere) {
      is_here_ = true;
      return {};
    }
    if (verdict && *verdict == Arbiter::Verdict::kStays) return fail(ECANCELED, "the VM stays where it was");
    const Instant now = Instant::now();
    const auto gone = arbiter_.source_is_gone(offer_.motion);
    const bool is_alone = (gone && *gone) || (silent_since && now >= *silent_since + kSourceSilence);
    const auto commits = may_commit(is_alone);
    if (!commits) return Failure(commits.error());
    if (verdict && *commits) {
      const auto committed = arbiter_.commit(offer_.motion);
      if (committed) {
        log::warn("VM {}: its host {} {}: it goes on here", offer_.motion.vm, offer_.motion.from,
                  reason_to_commit());
        continue;
      }
      if (waiting_log_.allow(now))
        log::warn("VM {}: it stays paused until the store says where it is: {}", offer_.motion.vm,
                  committed.error().message);
    }
    if (stopping_()) {
      auto stopped = stop_deciding();
      is_here_ = stopped.has_value();
      return stopped;
    }
    const Duration pause = now < seldom_at ? kArrivalPollInterval : Arbiter::kPause;
    const auto said = there_.listen(now + pause);
    if (said) continue;
    if (!silent_since) silent_since = now;
    std::this_thread::sleep_for(pause);
  }
}

Result<void> Destination::go_on() {
  const Instant began = Instant::now();
  const std::string& vm = offer_.motion.vm;
  // Insists, because the VM is nowhere else.
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
  static_cast<void>(there_.say("runs"));
  for (const milliseconds after : kNudges) {
    std::this_thread::sleep_for(began + after - Instant::now());
    static_cast<void>(side_.nudge(vm));
  }
  tidy_qemu();
  return resumed;
}

}  // namespace pvrdma::motion
