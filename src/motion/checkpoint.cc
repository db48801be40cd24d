#include "motion/checkpoint.h"

#include <cerrno>
#include <fmt/core.h>
#include <thread>

#include "base/log.h"
#include "motion/file_channel.h"
#include "motion/insist.h"
#include "motion/qemu.h"

namespace pvrdma::motion {
namespace {

constexpr Duration kWritePollInterval = std::chrono::milliseconds(10);
constexpr Duration kCancelPatience = std::chrono::seconds(10);

}  // namespace

Checkpoint::~Checkpoint() {
  if (const auto abandoned = abandon(); !abandoned) {
    log::error("adapter {}: a checkpoint was given up, and its VM could not be resumed: {}", wish_.adapter,
               abandoned.error().message);
  }
}

Result<CheckpointReport> Checkpoint::take(const Progress& progress) {
  Result<void> done = open();
  if (done) done = stop();
  if (done) done = write(progress);
  if (done) return report_;
  Error why = std::move(done).error();
  if (!changed_) return Failure(std::move(why));
  if (const auto abandoned = abandon(); !abandoned) {
    why.message += fmt::format("; going back to QEMU (pid {}) failed, too: {}", report_.qemu.pid,
                               abandoned.error().message);
  } else {
    why.message += was_running_ ? "; the VM goes on" : "; the VM is paused, as before";
  }
  return Failure(std::move(why));
}

Result<void> Checkpoint::open() {
  if (auto name = check_file_name(wish_.file); !name) return name;
  auto qemu = open_qemu(wish_.monitor);
  if (!qemu) return Failure(std::move(qemu).error());
  if (auto settled = check_settled(*qemu, wish_.adapter); !settled) return settled;
  was_running_ = qemu->state == "running";
  monitor_ = std::move(qemu->monitor);
  report_.qemu.pid = static_cast<std::uint32_t>(monitor_->pid());
  report_.qemu.version = std::move(qemu->version);
  const auto kept = vmm::migration_settings(*monitor_);
  if (!kept) return Failure(kept.error());
  kept_ = *kept;
  return {};
}

Result<void> Checkpoint::stop() {
  changed_ = true;
  stood_ = Instant::now();
  if (was_running_) {
    if (const auto stood = monitor_->execute("stop"); !stood) return Failure(stood.error());
  }
  if (auto stopped = side_.stop(wish_.adapter); !stopped) return stopped;
  stopped_ = true;
  const auto image = side_.pci_image(wish_.adapter);
  if (!image) return Failure(image.error());
  auto state = side_.save(wish_.adapter, AdapterSide::Save::kState, *image);
  if (!state) return Failure(std::move(state).error());
  state_ = *std::move(state);
  return {};
}

Result<void> Checkpoint::write(const Progress& progress) {
  if (auto set = vmm::set_migration_capability(*monitor_, kMappedRam, true); !set) return set;
  if (auto set = vmm::set_migration_settings(*monitor_, {0, kept_.downtime_ms}); !set) return set;
  const auto begun = monitor_->execute("migrate", {{"uri", file_uri(wish_.file)}});
  if (!begun) return Failure(begun.error());
  while (true) {
    const auto found = vmm::migration_status(*monitor_);
    if (!found) return Failure(found.error());
    if (found->status == "completed") {
      report_.ram_bytes = found->ram_bytes;
      report_.took = Instant::now() - stood_;
      return {};
    }
    if (vmm::has_ended(found->status)) {
      return fail(EIO,
                  fmt::format("QEMU does not write {}: it {}: {}", wish_.file, found->status, found->why));
    }
    if (!progress(*found)) return fail(ECANCELED, "the checkpoint was given up");
    std::this_thread::sleep_for(kWritePollInterval);
  }
}

Result<void> Checkpoint::finish() {
  changed_ = stopped_ = false;
  const auto ended = quit(monitor_);
  if (ended) return {};
  return fail(EIO, fmt::format("the VM is paused, and its QEMU (pid {}) has to be ended by hand: {}",
                               report_.qemu.pid, ended.error().message));
}

// Tries each step, even if the one before it failed.
Result<void> Checkpoint::abandon() {
  if (!std::exchange(changed_, false)) return {};
  Result<void> outcome;
  const auto note = [&outcome](const auto& done) {
    if (!done && outcome) outcome = Failure(done.error());
  };
  static_cast<void>(renew(monitor_));
  note(vmm::cancel_migration(*monitor_, Instant::now() + kCancelPatience));
  static_cast<void>(vmm::set_migration_capability(*monitor_, kMappedRam, false));  // QEMU may not know it
  note(vmm::set_migration_settings(*monitor_, kept_));
  if (std::exchange(stopped_, false)) note(insist([this] { return side_.go_on(wish_.adapter); }));
  static_cast<void>(renew(monitor_));
  if (was_running_) note(continue_vm(*monitor_));
  return outcome;
}

}  // namespace pvrdma::motion
