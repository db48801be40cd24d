#include "moves/arrivals.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <utility>

#include "base/events.h"
#include "base/log.h"
#include "moves/motion_event.h"

namespace pvrdma::moves {

Arrivals::Arrivals(control::Plane& plane, motion::AdapterSide& side, motion::Arbiter& arbiter,
                   const FindMonitor& find_monitor, calls::IncomingCalls& calls)
    : plane_(plane), side_(side), arbiter_(arbiter), find_monitor_(find_monitor) {
  using calls::IncomingCall, calls::Said;
  calls.on(motion::kOfferWord, [this](IncomingCall& call, const Said& first) { receive_vm(call, first); });
  calls.on(motion::kMemoryWord,
           [this](IncomingCall& call, const Said& first) { receive_memory(call, first); });
}

void Arrivals::receive_memory(calls::IncomingCall& call, const calls::Said& first) {
  if (!call.there().say("send")) return;
  motion::MemoryMessage message;
  if (!first.read("the message", message)) return;
  auto channel = call.give_channel();
  {
    const std::lock_guard lock(mutex_);
    const auto expected = memories_.find(message.motion);
    if (expected == memories_.end() || expected->second.from != call.peer() ||
        expected->second.channel != nullptr)
      return;
    expected->second.channel = std::move(channel);
  }
  changed_.notify_all();
}

// Reserves the VM and the motion. Returns false if the VM cannot come; `why` says why.
bool Arrivals::claim(const motion::Offer& offer, const calls::IncomingCall& call, std::string& why) {
  const std::string& peer = call.peer();
  const motion::Motion& motion = offer.motion;
  if (motion.from != peer || motion.to != plane_.host()) {
    why = fmt::format("host {} offers a motion from {} to {}", peer, motion.from, motion.to);
    return false;
  }
  const auto inventory = plane_.inventory();
  const auto vm = inventory->vms.find(motion.vm);
  if (vm == inventory->vms.end() || vm->second.host != peer) {
    why = fmt::format("host {} does not know that VM {} is on host {}: do both hosts use the same store?",
                      plane_.host(), motion.vm, peer);
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (call.stop().stop_requested()) {
    why = fmt::format("the pvrdmad of host {} stops", plane_.host());
  } else if (arriving_.contains(motion.vm)) {
    why = fmt::format("VM {} is coming to host {} by another motion: wait until that is over", motion.vm,
                      plane_.host());
  } else if (memories_.contains(motion.id)) {
    why = fmt::format("the motion {}, which is to bring VM {} to host {}, belongs to another VM", motion.id,
                      motion.vm, plane_.host());
  }
  if (!why.empty()) return false;
  arriving_.emplace(motion.vm, motion.id);
  memories_.emplace(motion.id, Memory{peer, nullptr});
  return true;
}

// Returns the end of the first line about an arrival from `peer`; nullopt: they come too often, so this one
// is not told unless the VM comes.
std::optional<std::string> Arrivals::begin_telling(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  log::LogLimiter& limiter = told_.try_emplace(peer, kToldBurst, kToldInterval).first->second;
  if (!limiter.allow(Instant::now())) return std::nullopt;
  return log::held_back(limiter);
}

void Arrivals::receive_vm(calls::IncomingCall& call, const calls::Said& first) {
  calls::Conversation& there = call.there();
  const auto offer = motion::read_offer(first);
  std::string why;
  if (!offer || !claim(*offer, call, why)) {
    if (!offer) why = offer.error().message;
    static_cast<void>(there.refuse(why));
    return;
  }
  const motion::Motion& motion = offer->motion;
  Result<motion::ArrivalReport> outcome = fail(EPIPE, fmt::format("host {} has gone", call.peer()));
  const bool is_taken = there.say("accepted", motion::Acceptance{.takes_draft = true}).has_value();
  std::optional<std::string> told;
  if (!offer->is_question) told = begin_telling(call.peer());
  if (is_taken && !offer->is_question) {
    if (told) {
      events::tell(log::Level::kInfo, motion_of(motion.vm), "VM {}: it is to come from host {} (motion {}){}",
                   motion.vm, motion.from, motion.id, *told);
    }
    const auto destination = motion::Destination::create(
        *offer, [this, &motion] { return find_monitor_(motion.vm); }, side_, arbiter_, there,
        [this, &motion, &call](Instant until) { return take_memory(motion, call.stop(), until); },
        [&call] { return call.stop().stop_requested(); });
    outcome = destination->run();
  }
  report(*offer, outcome, told.has_value());
  const std::lock_guard lock(mutex_);
  if (!offer->is_question) ++(outcome ? came_ : not_come_);
  if (told && outcome) told_.at(call.peer()).give_back();
  arriving_.erase(motion.vm);
  memories_.erase(motion.id);
}

void Arrivals::report(const motion::Offer& offer, const Result<motion::ArrivalReport>& report, bool is_told) {
  const motion::Motion& motion = offer.motion;
  if (offer.is_question) {
    log::debug("VM {}: host {} asks whether it may come here", motion.vm, motion.from);
  } else if (report) {
    events::tell(
        log::Level::kInfo, motion_of(motion.vm),
        "VM {}: it came from host {} (motion {}) and goes on in QEMU (pid {}): state loaded in {} us, "
        "started in {} us",
        motion.vm, motion.from, motion.id, report->pid, microseconds_of(report->load),
        microseconds_of(report->go_on));
  } else if (is_told) {
    events::tell(log::Level::kWarn, motion_of(motion.vm),
                 "VM {}: it did not come from host {} (motion {}): {}", motion.vm, motion.from, motion.id,
                 report.error().message);
  } else {
    log::debug("VM {}: it did not come from host {} (motion {}), one of many: {}", motion.vm, motion.from,
               motion.id, report.error().message);
  }
}

Result<std::unique_ptr<ByteChannel>> Arrivals::take_memory(const motion::Motion& motion,
                                                           const std::stop_token& stop, Instant until) {
  std::unique_lock lock(mutex_);
  const auto left = std::max<Duration>(until - Instant::now(), Duration{});
  auto& channel = memories_[motion.id].channel;
  changed_.wait_for(lock, stop, left, [&] { return channel != nullptr; });
  if (channel == nullptr)
    return fail(ETIMEDOUT, fmt::format("host {} does not send VM {}'s memory", motion.from, motion.vm));
  return std::move(channel);
}

bool Arrivals::leads(const std::string& vm, const std::string& motion) {
  const std::lock_guard lock(mutex_);
  const auto found = arriving_.find(vm);
  return found != arriving_.end() && found->second == motion;
}

void Arrivals::add_to(motion::MotionCounters& counters) {
  const std::lock_guard lock(mutex_);
  counters.came += came_;
  counters.not_come += not_come_;
}

}  // namespace pvrdma::moves
