// A VM that comes to this host led by libvirt (ADR 21).
#include <cerrno>
#include <cstdint>
#include <fmt/core.h>
#include <thread>

#include "base/log.h"
#include "motion/destination.h"
#include "vmm/migration.h"

namespace pvrdma::motion {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kPollInterval = milliseconds(20);

}  // namespace

LedVm look_at(vmm::Monitor* monitor, MovingSide& side, const std::string& vm) {
  if (monitor != nullptr) {
    const auto state = vmm::run_state(*monitor);
    if (state && *state == "running") return LedVm::kRuns;
    if (state) return *state == "inmigrate" ? LedVm::kWaits : LedVm::kStands;
  }
  const auto has_vmm = side.has_vmm(vm);
  const bool is_gone = has_vmm ? !*has_vmm : has_vmm.error().code == ENOENT;  // there is no adapter for one
  return is_gone ? LedVm::kGone : LedVm::kUnknown;
}

Result<void> Destination::prepare_led() {
  if (auto came = prepare(); !came) return came;
  if (auto restored = restore(); !restored) return restored;
  return there_.say({{"say", "restored"}});
}

// A VM that cannot be asked may run.
Result<void> Destination::check_stands(bool has_pages) {
  const LedVm vm = look();
  if (vm == LedVm::kStands) return {};
  if (vm != LedVm::kRuns)
    return fail(EAGAIN, fmt::format("whether VM {} stands here is not known: its QEMU does not answer",
                                    offer_.motion.vm));
  return fail(EBUSY, fmt::format("VM {} runs here before its adapter is here: have libvirt leave it paused "
                                 "(virsh migrate --suspend){}",
                                 offer_.motion.vm,
                                 has_pages ? "; old bytes may be over its newer ones: reset it" : ""));
}

// What the adapter had written there, over what QEMU has brought.
Result<void> Destination::take_pages() {
  const std::string& vm = offer_.motion.vm;
  bool has_pages = false;
  if (auto stands = check_stands(has_pages); !stands) return stands;
  if (auto told = there_.say({{"say", "memory"}}); !told) return told;
  while (true) {
    auto said = there_.listen(Instant::now() + calls::Conversation::kAnswerPatience);
    if (!said) return Failure(std::move(said).error());
    if (!*said)
      return fail(ETIMEDOUT, fmt::format("host {} does not send what the adapter of VM {} has written",
                                         offer_.motion.from, vm));
    if ((*said)->is("whole")) break;
    if (!(*said)->is("pages")) return there_.given_up(**said);
    const auto at = (*said)->text.find("at");
    if (at == (*said)->text.end() || !at->is_number_unsigned() ||
        (*said)->bytes.size() > MovingSide::kPagesBytesMax)
      return fail(EPROTO,
                  fmt::format("host {} sends pages of VM {} without an address, or more than {} bytes",
                              offer_.motion.from, vm, MovingSide::kPagesBytesMax));
    if (auto stands = check_stands(has_pages); !stands) return stands;
    has_pages = true;
    auto put = side_.put_pages(vm, at->get<std::uint64_t>(), std::move((*said)->bytes));
    if (!put) return put;
  }
  if (auto stands = check_stands(has_pages); !stands) return stands;
  if (auto same = side_.check_own(vm, image_); !same) return same;
  static_cast<void>(there_.say({{"say", "loaded"}}));  // a source that has died hears nothing
  return {};
}

LedVm Destination::look() {
  if (monitor_ != nullptr && !monitor_->works()) {
    auto again = vmm::Monitor::connect(monitor_->path(), Instant{});
    if (again) monitor_ = *std::move(again);
  }
  return look_at(monitor_.get(), side_, offer_.motion.vm);
}

// What has not come yet comes no more; what has come cannot be told from here whether it has.
void Destination::stop_incoming() {
  if (monitor_ == nullptr) {
    const auto path = find_monitor_();
    auto monitor = path ? vmm::Monitor::connect(*path, Instant{}) : Failure(path.error());
    if (!monitor) return;  // libvirt has started none
    monitor_ = *std::move(monitor);
  }
  if (look() != LedVm::kWaits) return;
  const auto found = vmm::migration_status(*monitor_);
  if (found && (found->status == "none" || found->status == "setup")) {
    static_cast<void>(monitor_->execute("quit"));
  } else {
    const auto migration = vmm::Json::array({{{"type", "migration"}}});
    static_cast<void>(monitor_->execute("yank", {{"instances", migration}}));
  }
}

// The VM is where libvirt has it: here when it runs here, whatever has become of its adapter, and nowhere
// here when its QEMU ends.
Result<ArrivalReport> Destination::give_up_led(Error why) {
  const std::string& vm = offer_.motion.vm;
  log::LogLimiter waiting_log(1, seconds(10));
  stop_incoming();
  while (true) {
    const auto verdict = arbiter_.look(offer_.motion);
    if (verdict && *verdict == Arbiter::Verdict::kStays) return Failure(std::move(why));
    if (verdict && *verdict == Arbiter::Verdict::kThere) break;
    const LedVm found = look();
    if (monitor_ == nullptr) stop_incoming();
    bool is_told = true;
    if (found == LedVm::kGone) {
      is_told = arbiter_.end(offer_.motion).has_value();
    } else if (found == LedVm::kRuns) {
      is_told = arbiter_.commit(offer_.motion).has_value();
    } else if (found == LedVm::kStands && waiting_log.allow(Instant::now())) {
      log::warn("VM {}: it stands here without its adapter's connections until libvirt lets it go on: {}", vm,
                why.message);
    }
    if (stopping_()) return Failure(std::move(why));
    std::this_thread::sleep_for(is_told ? kPollInterval : Arbiter::kPause);
  }
  if (auto begun = begin_anew(); !begun) why.message += fmt::format("; then {}", begun.error().message);
  why.message +=
      fmt::format("; VM {} is on this host, and its adapter has lost everything: reload the driver", vm);
  return Failure(std::move(why));
}

// It is nowhere else.
Result<void> Destination::begin_anew() {
  if (is_loaded_) {
    if (auto unloaded = side_.unload(offer_.motion.vm); !unloaded) return unloaded;
  }
  if (auto works = side_.arrive(offer_.motion.vm); !works) return works;
  if (is_paused_) return {};
  if (monitor_ == nullptr) return fail(ENOENT, "its QEMU's monitor was never reached: continue it by hand");
  const auto continued = monitor_->execute("cont");
  return continued ? Result<void>() : Failure(continued.error());
}

}  // namespace pvrdma::motion
