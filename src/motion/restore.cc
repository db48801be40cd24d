#include "motion/restore.h"

#include <cerrno>
#include <fmt/core.h>
#include <thread>

#include "motion/file_channel.h"
#include "vmm/migration.h"

namespace pvrdma::motion {
namespace {

constexpr Duration kPollInterval = std::chrono::milliseconds(10);

}  // namespace

Result<RestoreReport> Restore::run() {
  const Instant began = Instant::now();
  for (const auto step : {&Restore::open, &Restore::load, &Restore::read, &Restore::go_on}) {
    auto done = (this->*step)();
    if (done) continue;
    Error why = std::move(done).error();
    if (loaded_) {  // the VM is neither here nor there
      static_cast<void>(monitor_->execute("quit"));
      why.message +=
          fmt::format("; the new QEMU (pid {}) was ended, {} is as it was", report_.pid, wish_.file);
    }
    return Failure(std::move(why));
  }
  report_.took = Instant::now() - began;
  return report_;
}

Result<void> Restore::open() {
  if (auto name = check_file_name(wish_.file); !name) return name;
  auto monitor = vmm::Monitor::connect(wish_.monitor, Instant::now());
  if (!monitor) return Failure(std::move(monitor).error());
  monitor_ = *std::move(monitor);
  report_.pid = monitor_->pid();
  auto version = vmm::version_of(*monitor_);
  if (!version) return Failure(std::move(version).error());
  report_.version = *std::move(version);
  const auto state = vmm::run_state(*monitor_);
  if (!state) return Failure(state.error());
  const auto migration = vmm::migration_status(*monitor_);
  if (!migration) return Failure(migration.error());
  if (*state != "inmigrate" || migration->status != "none") {
    return fail(EBUSY,
                fmt::format("the QEMU at {} does not wait for a checkpoint, its VM is in state \"{}\": "
                            "start one with the arguments that pvrdmactl vm qemu-args --restore prints",
                            wish_.monitor, *state));
  }
  const auto place = vmm::find_device(*monitor_);
  if (!place) return Failure(place.error());
  place_ = *place;
  return {};
}

Result<void> Restore::load() {
  const auto image = side_.load(wish_.adapter, std::move(wish_.state));
  if (!image) return Failure(image.error());
  loaded_ = true;
  image_ = *image;
  return vmm::restore(*monitor_, place_, image_,
                      [this] { return side_.write_own_msix_table(wish_.adapter, image_); });
}

Result<void> Restore::read() {
  if (auto set = vmm::set_migration_capability(*monitor_, kMappedRam, true); !set) return set;
  const auto begun = monitor_->execute("migrate-incoming", {{"uri", file_uri(wish_.file)}});
  if (!begun) return Failure(begun.error());
  const Instant until = Instant::now() + kPatience;
  while (true) {
    const auto found = vmm::migration_status(*monitor_);
    if (!found) return fail(EIO, fmt::format("QEMU does not read {}: {}", wish_.file, found.error().message));
    if (found->status == "completed") return side_.check_own(wish_.adapter, image_);
    if (found->status != "none" && vmm::has_ended(found->status))
      return fail(EIO, fmt::format("QEMU does not read {}: {}", wish_.file, found->why));
    if (Instant::now() >= until)
      return fail(ETIMEDOUT, fmt::format("QEMU has not read {} yet: \"{}\"", wish_.file, found->status));
    std::this_thread::sleep_for(kPollInterval);
  }
}

Result<void> Restore::go_on() {
  // Another migration of this QEMU would need a file, too.
  if (auto set = vmm::set_migration_capability(*monitor_, kMappedRam, false); !set) return set;
  if (auto works = side_.go_on(wish_.adapter); !works) return works;
  if (const auto continued = monitor_->execute("cont"); !continued) return Failure(continued.error());
  loaded_ = false;  // it runs: nothing ends it any more
  return side_.resume(wish_.adapter);
}

}  // namespace pvrdma::motion
