#include "pvrdmad/shard_control.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <optional>
#include <thread>

#include "adapters/adapter_fault.h"
#include "api/vm_monitors.h"
#include "base/log.h"
#include "capture/capture.h"
#include "capture/filter.h"
#include "capture/reader.h"
#include "device/print_state.h"
#include "motion/restore.h"
#include "motion/vmm_upgrade.h"
#include "shard/ask.h"

namespace pvrdma::daemon {
namespace {

constexpr Duration kPatience = std::chrono::seconds(2);

// How often a capture's ring is looked at. The shard tells nobody: that would be a system call of its own.
constexpr std::chrono::milliseconds kLookEvery{2};
constexpr int kLooks = 50;

// Null: none. On the shard.
adapters::ServedAdapter* find(const adapters::AdapterSet& adapters, const std::string& name) {
  const auto& all = adapters.adapters();
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return each->port().name() == name; });
  return it == all.end() ? nullptr : it->get();
}

Failure no_adapter(const std::string& name) {
  return fail(ENOENT, "there is no adapter " + name + ": see the list of adapters");
}

// A place among the captures that there may be.
class Place {
 public:
  explicit Place(std::atomic<std::size_t>& taken)
      : taken_(taken), held_(taken.fetch_add(1) < capture::kCapturesMax) {
    if (!held_) taken.fetch_sub(1);
  }
  ~Place() {
    if (held_) taken_.fetch_sub(1);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool held() const { return held_; }

 private:
  std::atomic<std::size_t>& taken_;
  const bool held_;
};

}  // namespace

// Detaches its capture from the adapter, if that is still there, when it ends. When the shard does not answer
// the capture is one that nobody reads, which costs little and ends with the adapter or the next capture.
class ShardControl::CaptureStream final : public control::ByteStream {
 public:
  CaptureStream(ShardControl& control, std::unique_ptr<Place> place,
                std::shared_ptr<capture::Capture> capture, capture::ReaderOptions options)
      : control_(control),
        place_(std::move(place)),
        adapter_(options.adapter),
        capture_(capture),
        reader_(std::move(capture), std::move(options), Instant::now(), std::chrono::system_clock::now()) {}
  ~CaptureStream() override {
    static_cast<void>(shard::ask(
        control_.loop_, kPatience,
        [&adapters = control_.adapters_, adapter = adapter_, capture = capture_] {
          if (auto* found = find(adapters, adapter); found != nullptr) found->tap().remove(*capture);
          return true;
        },
        "ending a capture"));
  }

  bool read(std::string& out) override {
    for (int look = 0; look < kLooks; ++look) {
      if (look != 0) std::this_thread::sleep_for(kLookEvery);
      if (!reader_.read(out, Instant::now())) return false;
      if (!out.empty()) break;
    }
    return true;
  }

 private:
  ShardControl& control_;
  const std::unique_ptr<Place> place_;
  const std::string adapter_;
  const std::shared_ptr<capture::Capture> capture_;
  capture::Reader reader_;
};

Result<std::unique_ptr<control::ByteStream>> ShardControl::start_capture(const control::CaptureWish& wish) {
  auto filter = capture::Filter::parse(wish.filter);
  if (!filter) return Failure(std::move(filter).error());
  auto place = std::make_unique<Place>(captures_);
  const auto too_many = [] {
    return fail(EBUSY, fmt::format("there are {} captures already: end one of them", capture::kCapturesMax));
  };
  if (!place->held()) return too_many();

  capture::ReaderOptions options{.adapter = wish.adapter,
                                 .application = "pvrdmad " + version_,
                                 .filter = *std::move(filter),
                                 .frames_max = wish.frames_max};
  if (wish.seconds != 0) options.duration = std::chrono::seconds(wish.seconds);
  const auto capture = capture::Capture::create(reaper_.open_queue(), wish.snap_bytes);
  struct Begun {
    bool found = false;
    bool added = false;
    Mac mac;
    RoceVersion version{};
  };
  const auto begun = shard::ask(
      loop_, kPatience,
      [&adapters = adapters_, adapter = wish.adapter, capture] {
        adapters::ServedAdapter* found = find(adapters, adapter);
        if (found == nullptr) return Begun{};
        const device::AdapterInfo info = found->adapter().info();
        return Begun{true, found->tap().add(capture), info.mac, info.roce};
      },
      "beginning a capture");
  if (!begun) return Failure(begun.error());
  if (!begun->found) return no_adapter(wish.adapter);
  if (!begun->added) return too_many();
  options.mac = begun->mac;
  options.version = begun->version;
  return std::make_unique<CaptureStream>(*this, std::move(place), capture, std::move(options));
}

Result<control::FaultState> ShardControl::add_fault(const control::FaultWish& wish) {
  if (injection_ == Injection::kRefused) {
    return fail(
        EPERM,
        "this daemon injects no faults: start it with --fault-injection, or set fault_injection = true in "
        "[daemon]");
  }
  control::FaultWish seeded = wish;
  if (!seeded.seed) seeded.seed = static_cast<std::uint32_t>(Instant::now().since_start.count());
  auto fault = adapters::AdapterFault::create(
      faults_made_.fetch_add(1) + 1, seeded,
      {.transports = fabric_.transports(), .inbound = fabric_, .roce = roce_, .clock = clock_},
      reaper_.open_queue());
  struct Added {
    bool found = false;
    std::uint64_t other = 0;  // the fault that the adapter has already
    control::FaultState state;
  };
  const auto added = shard::ask(
      loop_, kPatience,
      [&adapters = adapters_, adapter = wish.adapter, fault = std::move(fault)] {
        adapters::ServedAdapter* found = find(adapters, adapter);
        if (found == nullptr) return Added{};
        Added done{true, 0, fault->state()};
        if (!found->inject(fault)) done.other = found->fault()->id();
        return done;
      },
      "adding a fault");
  if (!added) return Failure(added.error());
  if (!added->found) return no_adapter(wish.adapter);
  if (added->other != 0) {
    return fail(EBUSY,
                fmt::format("adapter {} has fault {} already: remove it first", wish.adapter, added->other));
  }
  log::warn("adapter {}: fault {} is injected into what it sends, seed {}", wish.adapter, added->state.id,
            *seeded.seed);
  return added->state;
}

Result<std::vector<control::FaultState>> ShardControl::list_faults() {
  auto listed = shard::ask(
      loop_, kPatience,
      [&adapters = adapters_] {
        std::vector<control::FaultState> all;
        for (const auto& each : adapters.adapters()) {
          if (each->fault() != nullptr) all.push_back(each->fault()->state());
        }
        return all;
      },
      "listing the faults");
  if (!listed) return Failure(std::move(listed).error());
  std::ranges::sort(*listed, {}, &control::FaultState::id);
  return listed;
}

Result<void> ShardControl::remove_fault(std::optional<std::uint64_t> id) {
  const auto removed = shard::ask(
      loop_, kPatience,
      [&adapters = adapters_, id] {
        std::size_t count = 0;
        for (const auto& each : adapters.adapters()) {
          if (each->fault() == nullptr || (id && each->fault()->id() != *id)) continue;
          each->fault()->deliver_all(Instant::now());
          each->stop_injecting();
          ++count;
        }
        return count;
      },
      "removing faults");
  if (!removed) return Failure(removed.error());
  if (id && *removed == 0)
    return fail(ENOENT, fmt::format("there is no fault {}: see the list of faults", *id));
  return {};
}

Result<void> ShardControl::set_link(const std::string& adapter, control::Link link) {
  const auto found = shard::ask(
      loop_, kPatience,
      [this, adapter, link] {
        adapters::ServedAdapter* found_adapter = find(adapters_, adapter);
        if (found_adapter == nullptr) return false;
        found_adapter->set_link(link == control::Link::kUp);
        return true;
      },
      "setting a link");
  if (!found) return Failure(found.error());
  if (!*found) return no_adapter(adapter);
  return {};
}

Result<control::UpgradedVmm> ShardControl::upgrade_vmm(const control::UpgradeVmmWish& wish) {
  const auto socket = side_.socket(wish.adapter);
  if (!socket) return fail(socket.error().code == ENOENT ? ENXIO : EIO, socket.error().message);
  const api::VmMonitors places = api::monitors_beside(*socket);
  api::MonitorsInUse monitors = api::monitors_in_use(places);
  if (!wish.monitor.empty()) monitors.current = wish.monitor;
  if (!wish.new_monitor.empty()) monitors.next = wish.new_monitor;
  motion::VmmUpgrade upgrade({.adapter = wish.adapter,
                              .monitor = monitors.current,
                              .new_monitor = monitors.next,
                              .main_socket = places.main,
                              .cpr_socket = places.cpr},
                             side_);
  const auto report = upgrade.run();
  if (!report) {
    log::warn("adapter {}: its VM does not go on in a new QEMU: {}", wish.adapter, report.error().message);
    return Failure(report.error());
  }
  log::info("adapter {}: its VM goes on in QEMU {} (pid {}), before in QEMU {} (pid {}); it stood for {} us",
            wish.adapter, report->new_version, report->new_pid, report->old_version, report->old_pid,
            microseconds_of(report->pause));
  return control::UpgradedVmm{.vm = wish.adapter,
                              .from = {report->old_version, static_cast<std::uint32_t>(report->old_pid)},
                              .to = {report->new_version, static_cast<std::uint32_t>(report->new_pid)},
                              .pause_us = microseconds_of(report->pause),
                              .qemu_us = microseconds_of(report->qemu),
                              .restore_us = microseconds_of(report->restore),
                              .adapter_us = microseconds_of(report->handover),
                              .state_bytes = report->state_bytes};
}

Result<std::string> ShardControl::monitor_of(const std::string& vm, const std::string& said) {
  const auto socket = side_.socket(vm);
  if (!socket) return Failure(socket.error());
  if (!said.empty()) return said;
  return api::monitors_in_use(api::monitors_beside(*socket)).current;
}

Result<std::unique_ptr<control::ByteStream>> ShardControl::start_checkpoint(
    const control::CheckpointWish& wish) {
  auto monitor = monitor_of(wish.adapter, wish.monitor);
  if (!monitor) return Failure(std::move(monitor).error());
  return checkpoints_.start({.adapter = wish.adapter, .monitor = *std::move(monitor), .file = wish.file});
}

Result<control::RestoredVm> ShardControl::restore(const control::CheckpointWish& wish,
                                                  std::string_view state) {
  auto monitor = monitor_of(wish.adapter, wish.monitor);
  if (!monitor) return fail(monitor.error().code == ENOENT ? ENXIO : EIO, monitor.error().message);
  const auto bytes = std::as_bytes(std::span(state));
  const auto report = motion::Restore({.adapter = wish.adapter,
                                       .monitor = *std::move(monitor),
                                       .file = wish.file,
                                       .state = {bytes.begin(), bytes.end()}},
                                      side_, [this] { return stopping_.load(); })
                          .run();
  if (!report) {
    log::warn("adapter {}: its VM does not go on from {}: {}", wish.adapter, wish.file,
              report.error().message);
    return Failure(report.error());
  }
  log::info("adapter {}: its VM goes on from {} in QEMU {} (pid {}), after {} us", wish.adapter, wish.file,
            report->version, report->pid, microseconds_of(report->took));
  return control::RestoredVm{.vm = wish.adapter,
                             .qemu = {report->version, static_cast<std::uint32_t>(report->pid)},
                             .took_us = microseconds_of(report->took)};
}

namespace {

Failure no_cluster() {
  return fail(ENOENT, "this pvrdmad is no member of a cluster: there is no other host to go to");
}

}  // namespace

std::string ShardControl::print_state(std::string_view state) {
  return device::print_state(std::as_bytes(std::span(state)));
}

Result<control::MotionState> ShardControl::start_motion(const control::MotionWish& wish) {
  return motions_ != nullptr ? motions_->start(wish) : no_cluster();
}

Result<void> ShardControl::check_motion(const control::MotionWish& wish) {
  return motions_ != nullptr ? motions_->check(wish) : no_cluster();
}

std::vector<control::MotionState> ShardControl::list_motions() {
  return motions_ != nullptr ? motions_->list() : std::vector<control::MotionState>{};
}

Result<void> ShardControl::cancel_motion(const std::string& vm) {
  return motions_ != nullptr ? motions_->cancel(vm) : no_cluster();
}

}  // namespace pvrdma::daemon
