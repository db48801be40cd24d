#include "motion/restore.h"

#include <cerrno>
#include <fmt/core.h>
#include <thread>

#include "motion/file_channel.h"
#include "motion/qemu.h"

namespace pvrdma::motion {
namespace {

constexpr Duration kReadPollInterval = std::chrono::milliseconds(10);

}  // namespace

Result<RestoreReport> Restore::run() {
  const Instant began = Instant::now();
  for (const auto step : {&Restore::open, &Restore::load, &Restore::read, &Restore::go_on}) {
    auto done = (this->*step)();
    if (done) continue;
    Error why = std::move(done).error();
    if (loaded_) {  // the VM runs in neither QEMU
      why.message += fmt::format("; {}, and {} is unchanged", end_qemu(monitor_), wish_.file);
    }
    return Failure(std::move(why));
  }
  report_.took = Instant::now() - began;
  return report_;
}

Result<void> Restore::open() {
  if (auto name = check_file_name(wish_.file); !name) return name;
  auto qemu = open_qemu(wish_.monitor);
  if (!qemu) return Failure(std::move(qemu).error());
  if (auto waits = check_waits(*qemu, wish_.adapter); !waits) return waits;
  monitor_ = std::move(qemu->monitor);
  report_.vm = wish_.adapter;
  report_.qemu.pid = static_cast<std::uint32_t>(monitor_->pid());
  report_.qemu.version = std::move(qemu->version);
  place_ = qemu->place;
  return {};
}

Result<void> Restore::load() {
  const auto image = side_.load(wish_.adapter, std::move(state_));
  if (!image) return Failure(image.error());
  loaded_ = true;
  image_ = *image;
  return vmm::restore(*monitor_, place_, image_, [this] {
    return side_.write_msix_table(wish_.adapter, AdapterSide::Vmm::kOwn, image_);
  });
}

Result<void> Restore::read() {
  if (auto set = vmm::set_migration_capability(*monitor_, kMappedRam, true); !set) return set;
  const auto begun = monitor_->execute("migrate-incoming", {{"uri", file_uri(wish_.file)}});
  if (!begun) return Failure(begun.error());
  const Instant until = Instant::now() + kPatience;
  while (true) {
    const auto found = vmm::migration_status(*monitor_);
    if (!found) return fail(EIO, fmt::format("QEMU does not read {}: {}", wish_.file, found.error().message));
    if (found->status == "completed") return side_.check_pci(wish_.adapter, AdapterSide::Vmm::kOwn, image_);
    if (found->status != "none" && vmm::has_ended(found->status))
      return fail(EIO, fmt::format("QEMU does not read {}: {}", wish_.file, found->why));
    if (Instant::now() >= until)
      return fail(ETIMEDOUT, fmt::format("QEMU has not read {} yet: \"{}\"", wish_.file, found->status));
    if (stopping_()) return fail(ECANCELED, "this pvrdmad stops");
    std::this_thread::sleep_for(kReadPollInterval);
  }
}

Result<void> Restore::go_on() {
  // Off again: with it, the next migration of this QEMU would also need a file.
  if (auto set = vmm::set_migration_capability(*monitor_, kMappedRam, false); !set) return set;
  if (auto works = side_.go_on(wish_.adapter); !works) return works;
  if (const auto continued = monitor_->execute("cont"); !continued) return Failure(continued.error());
  loaded_ = false;  // it runs, so no failure may end it any more
  return side_.resume(wish_.adapter);
}

}  // namespace pvrdma::motion
