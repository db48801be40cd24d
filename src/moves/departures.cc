#include "moves/departures.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fmt/core.h>
#include <stop_token>
#include <utility>

#include "base/events.h"
#include "base/utc_text.h"
#include "control/model/edits.h"
#include "moves/motion_event.h"
#include "vocabulary/name.h"

namespace pvrdma::moves {
namespace {

using motion::MotionState;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kMaxPauseMost{5000};
constexpr seconds kPatienceMost{86'400};
constexpr std::size_t kStatesMax = 1024;

std::string now_utc() {
  return utc_text(static_cast<std::uint64_t>(
                      duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch()).count()),
                  TimeUnit::kSeconds);
}

}  // namespace

struct Departures::Departure {
  explicit Departure(Plan made) : plan(std::move(made)) {}
  const Plan plan;
  std::atomic<bool> is_cancelled = false;
  std::atomic<bool> is_late = false;  // too late to cancel it
};

Departures::Departures(control::Plane& plane, motion::AdapterSide& side, motion::Arbiter& arbiter,
                       const calls::HostCalls& calls, const FindMonitor& find_monitor)
    : plane_(plane), side_(side), arbiter_(arbiter), calls_(calls), find_monitor_(find_monitor) {}

Departures::~Departures() = default;

Result<std::unique_ptr<ByteChannel>> Departures::open_memory(const motion::Motion& motion) {
  auto first = calls_.call(motion.to);
  if (!first) return Failure(std::move(first).error());
  // QEMU's stream follows this message.
  if (auto said = (*first)->say(motion::kMemoryWord, motion::MemoryMessage{motion.id}); !said)
    return Failure(std::move(said).error());
  if (const auto awaited = (*first)->expect("send", Instant::now() + calls::kFirstWordPatience); !awaited)
    return Failure(awaited.error());
  auto bare = (*first)->give_channel();
  if (bare == nullptr)
    return fail(EPROTO, fmt::format("host {} sends a message where it must only receive", motion.to));
  return bare;
}

Result<Departures::Plan> Departures::complete(const motion::MotionWish& wish, const std::string& id) {
  if (const auto store = plane_.store_state(); !store.connected) {
    return fail(
        ErrorKind::kUnavailable,
        fmt::format("store {} cannot be reached ({}): no motion starts without it: try again when it is back",
                    store.description, store.trouble));
  }
  const auto inventory = plane_.inventory();
  if (auto allowed = control::edits::check_motion(*inventory, wish.vm, wish.to); !allowed)
    return Failure(std::move(allowed).error());
  const std::string& from = inventory->vms.at(wish.vm).host;
  if (from != plane_.host()) {
    return fail(ErrorKind::kInvalid,
                fmt::format("VM {} is on host {}: ask the pvrdmad there, not the one of {}", wish.vm, from,
                            plane_.host()));
  }
  if (wish.max_pause > kMaxPauseMost)
    return fail(ErrorKind::kInvalid,
                fmt::format("a pause of {} ms is too long: at most {}",
                            duration_cast<milliseconds>(wish.max_pause).count(), kMaxPauseMost.count()),
                "max_pause_ms");
  if (wish.patience > kPatienceMost)
    return fail(ErrorKind::kInvalid,
                fmt::format("a patience of {} s is too long: at most {}",
                            duration_cast<seconds>(wish.patience).count(), kPatienceMost.count()),
                "patience_s");
  auto monitor = wish.monitor.empty() ? find_monitor_(wish.vm) : Result<std::string>(wish.monitor);
  if (!monitor) return Failure(std::move(monitor).error());
  Plan plan{.motion = {id, wish.vm, from, wish.to}, .wish = wish};
  plan.wish.monitor = *std::move(monitor);
  return plan;
}

Result<void> Departures::check(const motion::MotionWish& wish) {
  auto plan = complete(wish, random_name());
  if (!plan) return Failure(std::move(plan).error());
  const auto there = calls_.call(wish.to);
  if (!there) return Failure(there.error());
  auto checked = motion::Source::create(std::move(plan->motion), std::move(plan->wish), side_, arbiter_,
                                        **there, nullptr, nullptr)
                     ->check();
  // The VM exists, but its QEMU or adapter does not.
  if (!checked && (checked.error().kind == ErrorKind::kNotFound || checked.error().code == ECONNREFUSED))
    return Failure(std::move(checked).error().as(ErrorKind::kConflict));
  return checked;
}

Result<MotionState> Departures::start(const motion::MotionWish& wish) {
  const bool is_led = wish.leader == motion::Leader::kLibvirt;
  auto plan = complete(wish, (is_led ? kLedPrefix : "") + random_name());
  if (!plan) return Failure(std::move(plan).error());
  const std::lock_guard lock(mutex_);
  if (jobs_.is_stopping()) return fail(ErrorKind::kUnavailable, "this pvrdmad stops");
  if (leaving_.contains(wish.vm)) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} is on its way to host {}: wait until that is over, or cancel it with "
                            "pvrdmactl vm migrate {} --cancel",
                            wish.vm, leaving_.at(wish.vm)->plan.motion.to, wish.vm));
  }
  if (leaving_.size() >= kAtOnceMax)
    return fail(ErrorKind::kConflict,
                fmt::format("{} VMs are leaving this host: wait until one has gone", leaving_.size()));
  auto departure = std::make_unique<Departure>(*std::move(plan));
  const motion::Motion& motion = departure->plan.motion;
  MotionState state{motion, {}, "runs", "begins", {}, now_utc()};
  keep(state);
  auto led = jobs_.start([this, &led = *departure](const std::stop_token& stop) {
    lead(led, stop);
    const std::lock_guard ends(mutex_);
    leaving_.erase(led.plan.motion.vm);
  });
  if (!led) {
    states_.erase(motion.vm);
    return Failure(std::move(led).error().in("VM " + wish.vm));
  }
  leaving_.emplace(wish.vm, std::move(departure));
  return state;
}

// The mutex must be held. If there are too many states, one of a motion that has ended is dropped.
void Departures::keep(MotionState state) {
  if (states_.size() >= kStatesMax && !states_.contains(state.vm)) {
    const auto over = std::find_if(states_.begin(), states_.end(),
                                   [](const auto& entry) { return entry.second.state != "runs"; });
    if (over != states_.end()) states_.erase(over);
  }
  states_.insert_or_assign(state.vm, std::move(state));
}

void Departures::set_state(const std::string& vm, const std::function<void(MotionState&)>& change) {
  const std::lock_guard lock(mutex_);
  if (const auto found = states_.find(vm); found != states_.end()) change(found->second);
}

void Departures::lead(Departure& departure, const std::stop_token& stop) {
  const motion::Motion& motion = departure.plan.motion;
  const auto failed = [&](const Error& why) {
    events::tell(log::Level::kWarn, motion_of(motion.vm), "VM {}: it does not go to host {} (motion {}): {}",
                 motion.vm, motion.to, motion.id, why.message);
    set_state(motion.vm, [&](MotionState& state) {
      state.state = "failed";
      state.error = why.message;
      ++counters_.stayed;
    });
  };
  const auto call = calls_.call(motion.to);
  if (!call) return failed(call.error());
  calls::Conversation& there = **call;
  const std::stop_callback interrupts(stop, [&there] { there.interrupt(); });
  events::tell(log::Level::kInfo, motion_of(motion.vm), "VM {}: it is to go to host {} (motion {})",
               motion.vm, motion.to, motion.id);
  const auto source = motion::Source::create(
      motion, departure.plan.wish, side_, arbiter_, there, [this, &motion] { return open_memory(motion); },
      [&stop] { return stop.stop_requested(); });
  const auto report = source->run([&](const motion::MotionProgress& progress) {
    if (progress.phase == "commit") departure.is_late = true;
    set_state(motion.vm, [&](MotionState& state) {
      state.phase = progress.phase;
      if (progress.ram_bytes != 0) state.ram_bytes = progress.ram_bytes;
      state.remaining_bytes = progress.remaining_bytes;
    });
    return !departure.is_cancelled && !stop.stop_requested();
  });
  if (!report) return failed(report.error());
  arrived(motion, *report);
}

void Departures::arrived(const motion::Motion& motion, const motion::MotionReport& report) {
  events::tell(
      log::Level::kInfo, motion_of(motion.vm),
      "VM {}: it is on host {} now (motion {}): it was paused for {} us, {} bytes of state, {} of pages",
      motion.vm, motion.to, motion.id, microseconds_of(report.pause), report.state_bytes, report.page_bytes);
  if (!report.left_to_do.empty())
    events::tell(log::Level::kWarn, motion_of(motion.vm), "{}", report.left_to_do);
  set_state(motion.vm, [&](MotionState& state) {
    static_cast<motion::MotionReport&>(state) = report;
    state.state = report.is_lost ? "failed" : "done";
    state.remaining_bytes = 0;
    state.phase.clear();
    state.error = report.left_to_do;
    ++counters_.left;
    counters_.pause_us += microseconds_of(report.pause);
    counters_.state_bytes += report.state_bytes;
    counters_.page_bytes += report.page_bytes;
  });
}

std::vector<MotionState> Departures::list() {
  const std::lock_guard lock(mutex_);
  std::vector<MotionState> all;
  for (const auto& [vm, state] : states_) all.push_back(state);
  return all;
}

void Departures::add_to(motion::MotionCounters& counters) {
  const std::lock_guard lock(mutex_);
  counters.left += counters_.left;
  counters.stayed += counters_.stayed;
  counters.pause_us += counters_.pause_us;
  counters.state_bytes += counters_.state_bytes;
  counters.page_bytes += counters_.page_bytes;
}

bool Departures::leads(const std::string& vm, const std::string& motion) {
  const std::lock_guard lock(mutex_);
  const auto found = leaving_.find(vm);
  return found != leaving_.end() && found->second->plan.motion.id == motion;
}

Result<void> Departures::cancel(const std::string& vm) {
  const std::lock_guard lock(mutex_);
  const auto found = leaving_.find(vm);
  if (found == leaving_.end())
    return fail(ErrorKind::kNotFound, fmt::format("VM {} is not on its way from this host", vm));
  if (found->second->is_late)
    return fail(ErrorKind::kConflict, fmt::format("VM {} may be on host {} already: too late to cancel it",
                                                  vm, found->second->plan.motion.to));
  found->second->is_cancelled = true;
  return {};
}

}  // namespace pvrdma::moves
