#include "motion/daemon_led_destination.h"

#include <cerrno>
#include <fmt/core.h>

#include "vmm/migration.h"

namespace pvrdma::motion {

Result<void> DaemonLedDestination::check_waits(const Qemu& qemu) {
  return motion::check_waits(qemu, offer_.motion.vm);
}

Result<void> DaemonLedDestination::prepare() {
  took_qemu_ = true;
  auto draft = receive_pci_image();
  if (!draft) return Failure(std::move(draft).error());
  if (!draft->empty()) {
    if (auto tried = try_draft(*std::move(draft)); !tried) return tried;
  }
  if (auto restored = restore_pci(); !restored) return restored;
  if (auto set = vmm::set_migration_capability(*monitor_, vmm::kPauseBeforeSwitchover, true); !set)
    return set;
  if (auto told = there_.say("restored"); !told) return told;
  auto channel = take_memory_(Instant::now() + calls::Conversation::kAnswerPatience);
  if (!channel) return Failure(std::move(channel).error());
  auto pump = Pump::start(*monitor_, *std::move(channel), Pump::Direction::kToQemu);
  if (!pump) return Failure(std::move(pump).error());
  pump_ = *std::move(pump);
  // A QEMU that was started without -S would run the VM as soon as it has all of it.
  if (const auto stands = monitor_->execute("stop"); !stands) return Failure(stands.error());
  const auto begun = monitor_->execute("migrate-incoming", {{"uri", Pump::kUri}});
  if (!begun) return Failure(begun.error());
  return {};
}

Result<void> DaemonLedDestination::stop_deciding() {
  const auto ended = arbiter_.end(offer_.motion);
  if (ended) return fail(ECANCELED, "this daemon stops");
  if (ended.error().code == EALREADY) return {};
  took_qemu_ = false;  // unknown now whether the VM is in this QEMU
  return fail(ErrorKind::kUnavailable,
              fmt::format("this daemon stops, and the store does not say where VM {} is: {}",
                          offer_.motion.vm, ended.error().message));
}

void DaemonLedDestination::tidy_qemu() {
  static_cast<void>(vmm::set_migration_capability(*monitor_, vmm::kPauseBeforeSwitchover, false));
}

Result<ArrivalReport> DaemonLedDestination::give_up(Error why) {
  pump_.reset();
  if (took_qemu_) why.message += "; " + end_qemu(monitor_);
  return Failure(std::move(why));
}

}  // namespace pvrdma::motion
