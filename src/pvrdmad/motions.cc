#include "pvrdmad/motions.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <random>
#include <system_error>
#include <utility>

#include "base/control_thread.h"
#include "base/log.h"
#include "control/model/edits.h"

namespace pvrdma::daemon {
namespace {

using control::MotionState;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::chrono::seconds kRecordsPause{1};
constexpr Duration kFirstWordPatience = seconds(5);
constexpr std::uint32_t kMaxPauseMs = 500;  // unless it is said
constexpr std::uint32_t kMaxPauseMsMost = 5000;
constexpr std::uint32_t kPatienceS = 600;
constexpr std::uint32_t kPatienceSMost = 86'400;
constexpr std::size_t kStatesMax = 1024;

std::uint64_t us(Duration duration) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

std::string random_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

std::string now_utc() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::uint32_t or_default(std::uint32_t value, std::uint32_t unless_said) {
  return value != 0 ? value : unless_said;
}

}  // namespace

struct Motions::Departure {
  motion::MotionWish wish;
  std::atomic<bool> is_cancelled = false;
  std::atomic<bool> is_late = false;  // to cancel it
  std::atomic<bool> is_over = false;
  motion::Conversation* there = nullptr;  // guarded by mutex_; borrowed, while there is one
  std::thread thread;
};

struct Motions::Answer {
  std::unique_ptr<transport::tcp::Call> call;  // given away when it is memory
  std::string peer;
  motion::Conversation* there = nullptr;  // guarded by mutex_; borrowed, while there is one
  std::atomic<bool> is_over = false;
  std::thread thread;
};

Motions::Motions(control::Plane& plane, motion::MovingSide& side, std::unique_ptr<tls::Context> tls,
                 FindMonitor find_monitor)
    : plane_(plane),
      side_(side),
      tls_(std::move(tls)),
      find_monitor_(std::move(find_monitor)),
      arbiter_(plane),
      clerk_([this] { attend(); }) {}

Motions::~Motions() {
  stop();
}

void Motions::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& [vm, departure] : leaving_) {
      departure->is_cancelled = true;
      if (departure->there != nullptr) departure->there->interrupt();
    }
    for (const auto& answer : answers_) {
      if (answer->there != nullptr) answer->there->interrupt();
    }
  }
  changed_.notify_all();
  {
    const std::lock_guard lock(calls_mutex_);
    takes_calls_ = false;
  }
  call_came_.notify_all();
  if (clerk_.joinable()) clerk_.join();
  for (const auto& [vm, departure] : leaving_) departure->thread.join();
  leaving_.clear();
  for (const auto& answer : answers_) answer->thread.join();
  answers_.clear();
}

// --- VMs that leave ---

Result<std::unique_ptr<ByteChannel>> Motions::call(const std::string& host) {
  const auto inventory = plane_.inventory();
  const auto self = inventory->hosts.find(plane_.host());
  const auto other = inventory->hosts.find(host);
  const bool known = self != inventory->hosts.end() && other != inventory->hosts.end();
  const IpAddress* const from = known ? self->second.tagged_address() : nullptr;
  const IpAddress* const to = known ? other->second.tagged_address() : nullptr;
  if (from == nullptr || to == nullptr)
    return fail(EHOSTUNREACH,
                fmt::format("host {} cannot be called: no vmknic is tagged there or here", host));
  auto made =
      transport::tcp::Call::dial(plane_.host(), *from, {{}, host, *to, transport::kTcpPort}, tls_.get());
  if (!made) return Failure(std::move(made).error());
  return *std::move(made);
}

Result<std::unique_ptr<ByteChannel>> Motions::open_memory(const motion::Motion& motion) {
  auto channel = call(motion.to);
  if (!channel) return channel;
  // What QEMU sends comes behind it.
  motion::Conversation first(std::move(*channel));
  if (auto said = first.say({{"say", "memory"}, {"motion", motion.id}}); !said)
    return Failure(std::move(said).error());
  if (const auto awaited = first.expect("send", Instant::now() + kFirstWordPatience); !awaited)
    return Failure(awaited.error());
  auto bare = first.give_channel();
  if (bare == nullptr) return fail(EPROTO, fmt::format("host {} talks where it is to listen", motion.to));
  return bare;
}

Result<motion::MotionWish> Motions::complete(const control::MotionWish& wish, const std::string& id) {
  const auto inventory = plane_.inventory();
  if (auto allowed = control::edits::check_motion(*inventory, wish.vm, wish.to); !allowed)
    return Failure(std::move(allowed).error());
  const std::string& from = inventory->vms.at(wish.vm).host;
  if (from != plane_.host()) {
    return fail(EINVAL, fmt::format("VM {} is on host {}: ask the pvrdmad there, not the one of {}", wish.vm,
                                    from, plane_.host()));
  }
  if (wish.max_pause_ms > kMaxPauseMsMost)
    return fail(EINVAL,
                fmt::format("a pause of {} ms is too long: at most {}", wish.max_pause_ms, kMaxPauseMsMost));
  if (wish.patience_s > kPatienceSMost)
    return fail(EINVAL,
                fmt::format("a patience of {} s is too long: at most {}", wish.patience_s, kPatienceSMost));
  auto monitor = wish.monitor.empty() ? find_monitor_(wish.vm) : Result<std::string>(wish.monitor);
  if (!monitor) return Failure(std::move(monitor).error());
  return motion::MotionWish{.motion = {id, wish.vm, from, wish.to},
                            .monitor = *std::move(monitor),
                            .max_pause = milliseconds(or_default(wish.max_pause_ms, kMaxPauseMs)),
                            .patience = seconds(or_default(wish.patience_s, kPatienceS))};
}

Result<void> Motions::check(const control::MotionWish& wish) {
  auto complete_wish = complete(wish, random_id());
  if (!complete_wish) return Failure(std::move(complete_wish).error());
  auto channel = call(wish.to);
  if (!channel) return Failure(std::move(channel).error());
  motion::Conversation there(*std::move(channel));
  motion::Source source(*std::move(complete_wish), side_, arbiter_, there, nullptr, nullptr);
  return source.check();
}

Result<MotionState> Motions::start(const control::MotionWish& wish) {
  auto complete_wish = complete(wish, random_id());
  if (!complete_wish) return Failure(std::move(complete_wish).error());
  const std::lock_guard lock(mutex_);
  if (stopping_) return fail(EAGAIN, "this pvrdmad stops");
  std::erase_if(leaving_, [](const auto& entry) {
    if (!entry.second->is_over) return false;
    entry.second->thread.join();
    return true;
  });
  if (leaving_.contains(wish.vm)) {
    return fail(EBUSY,
                fmt::format("VM {} is on its way to host {}: wait until that is over, or cancel it with "
                            "pvrdmactl vm migrate {} --cancel",
                            wish.vm, leaving_.at(wish.vm)->wish.motion.to, wish.vm));
  }
  if (leaving_.size() >= kDeparturesMax) {
    return fail(EBUSY, fmt::format("{} VMs are leaving this host: wait until one has gone", leaving_.size()));
  }
  auto departure = std::make_unique<Departure>();
  departure->wish = *std::move(complete_wish);
  const motion::Motion& motion = departure->wish.motion;
  MotionState state{.id = motion.id,
                    .vm = motion.vm,
                    .from = motion.from,
                    .to = motion.to,
                    .state = "runs",
                    .phase = "begins",
                    .since = now_utc()};
  keep(state);
  Departure& led = *departure;
  try {
    led.thread = std::thread([this, &led] {
      begin_control_thread("motion");
      lead(led);
      led.is_over = true;
    });
  } catch (const std::system_error& refused) {
    states_.erase(motion.vm);
    return fail(EAGAIN, fmt::format("VM {}: no thread for its motion: {}", wish.vm, refused.what()));
  }
  leaving_.emplace(wish.vm, std::move(departure));
  return state;
}

// Under mutex_. One that is over gives way.
void Motions::keep(MotionState state) {
  if (states_.size() >= kStatesMax && !states_.contains(state.vm)) {
    const auto over = std::find_if(states_.begin(), states_.end(),
                                   [](const auto& entry) { return entry.second.state != "runs"; });
    if (over != states_.end()) states_.erase(over);
  }
  states_.insert_or_assign(state.vm, std::move(state));
}

void Motions::set_state(const std::string& vm, const std::function<void(MotionState&)>& change) {
  const std::lock_guard lock(mutex_);
  if (const auto found = states_.find(vm); found != states_.end()) change(found->second);
}

void Motions::set_conversation(Departure& departure, motion::Conversation* there) {
  const std::lock_guard lock(mutex_);
  departure.there = there;
  if (there != nullptr && stopping_) there->interrupt();
}

void Motions::lead(Departure& departure) {
  const motion::Motion& motion = departure.wish.motion;
  const auto failed = [&](const Error& why) {
    log::warn("VM {}: it does not go to host {} (motion {}): {}", motion.vm, motion.to, motion.id,
              why.message);
    set_state(motion.vm, [&](MotionState& state) {
      state.state = "failed";
      state.error = why.message;
      ++counters_.stayed;
    });
  };
  auto channel = call(motion.to);
  if (!channel) return failed(channel.error());
  motion::Conversation there(*std::move(channel));
  set_conversation(departure, &there);
  motion::Source source(
      departure.wish, side_, arbiter_, there, [this, &motion] { return open_memory(motion); },
      [this] {
        const std::lock_guard lock(mutex_);
        return stopping_;
      });
  const auto report = source.run([&](const motion::MotionProgress& progress) {
    if (progress.phase == "commit") departure.is_late = true;
    set_state(motion.vm, [&](MotionState& state) {
      state.phase = progress.phase;
      if (progress.ram_bytes != 0) state.ram_bytes = progress.ram_bytes;
      state.remaining_bytes = progress.remaining_bytes;
    });
    return !departure.is_cancelled;
  });
  set_conversation(departure, nullptr);
  if (!report) return failed(report.error());
  log::info("VM {}: it is on host {} now (motion {}): it stood for {} us, {} bytes of state, {} of pages",
            motion.vm, motion.to, motion.id, us(report->pause), report->state_bytes, report->page_bytes);
  set_state(motion.vm, [&](MotionState& state) {
    state.state = "done";
    state.phase.clear();
    ++counters_.left;
    counters_.pause_us += us(report->pause);
    counters_.state_bytes += report->state_bytes;
    counters_.page_bytes += report->page_bytes;
    state.ram_bytes = report->ram_bytes;
    state.remaining_bytes = 0;
    state.page_bytes = report->page_bytes;
    state.state_bytes = report->state_bytes;
    state.took_us = us(report->took);
    state.pause_us = us(report->pause);
    state.freeze_us = us(report->freeze);
    state.pages_us = us(report->pages);
    state.state_us = us(report->state);
    state.memory_us = us(report->memory);
    state.commit_us = us(report->commit);
    state.go_on_us = us(report->go_on);
  });
}

std::vector<MotionState> Motions::list() {
  const std::lock_guard lock(mutex_);
  std::vector<MotionState> all;
  for (const auto& [vm, state] : states_) all.push_back(state);
  return all;
}

control::MotionCounters Motions::counters() {
  const std::lock_guard lock(mutex_);
  return counters_;
}

Result<void> Motions::cancel(const std::string& vm) {
  const std::lock_guard lock(mutex_);
  const auto found = leaving_.find(vm);
  if (found == leaving_.end() || found->second->is_over)
    return fail(ENOENT, fmt::format("VM {} is not on its way from this host", vm));
  if (found->second->is_late)
    return fail(EBUSY, fmt::format("VM {} may be on host {} already: too late to cancel it", vm,
                                   found->second->wish.motion.to));
  found->second->is_cancelled = true;
  return {};
}

// --- What other hosts want ---

void Motions::take_call(std::unique_ptr<transport::tcp::Stream> stream, std::string peer) {
  auto call = std::make_unique<transport::tcp::Call>(std::move(stream), std::move(peer));
  {
    const std::lock_guard lock(calls_mutex_);
    const auto free = std::find(calls_.begin(), calls_.end(), nullptr);
    if (!takes_calls_ || free == calls_.end()) return;
    *free = std::move(call);
  }
  call_came_.notify_one();
}

// Null: none came for a while, or none is taken any more.
std::unique_ptr<transport::tcp::Call> Motions::next_call() {
  const auto is_call = [](const auto& call) { return call != nullptr; };
  std::unique_lock lock(calls_mutex_);
  call_came_.wait_for(lock, kRecordsPause,
                      [&] { return !takes_calls_ || std::ranges::any_of(calls_, is_call); });
  if (!takes_calls_) return nullptr;
  const auto first = std::ranges::find_if(calls_, is_call);
  return first != calls_.end() ? std::move(*first) : nullptr;
}

void Motions::begin_answer(std::unique_ptr<transport::tcp::Call> call) {
  const std::lock_guard lock(mutex_);
  std::erase_if(answers_, [](const auto& answer) {
    if (!answer->is_over) return false;
    answer->thread.join();
    return true;
  });
  const auto of_peer =
      std::ranges::count_if(answers_, [&call](const auto& answer) { return answer->peer == call->peer(); });
  if (stopping_ || answers_.size() >= kCallsMax || std::cmp_greater_equal(of_peer, kCallsOfHostMax)) return;
  auto made = std::make_unique<Answer>();
  made->peer = call->peer();
  made->call = std::move(call);
  Answer& one = *made;
  answers_.push_back(std::move(made));
  try {
    one.thread = std::thread([this, &one] {
      begin_control_thread("motion");
      answer(one);
      one.is_over = true;
    });
  } catch (const std::system_error&) {  // the other host calls again, or not
    answers_.pop_back();
  }
}

// The clerk.
void Motions::attend() {
  begin_control_thread("motions");
  while (true) {
    auto call = next_call();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    if (call != nullptr) {
      begin_answer(std::move(call));
    } else {
      look_after_records();
    }
  }
}

// A motion in the store that nobody leads any more is ended: a VM that goes nowhere can be edited again.
void Motions::look_after_records() {
  const auto inventory = plane_.inventory();
  for (const auto& [name, vm] : inventory->vms) {
    if (!vm.motion) continue;
    const bool leaves = vm.host == plane_.host();
    const bool comes = vm.motion->to == plane_.host() && !inventory->live_hosts.contains(vm.host);
    {
      const std::lock_guard lock(mutex_);
      const auto leaving = leaving_.find(name);
      const auto arriving = arriving_.find(name);
      if (leaves && leaving != leaving_.end() && leaving->second->wish.motion.id == vm.motion->id &&
          !leaving->second->is_over)
        continue;
      if (comes && arriving != arriving_.end() && arriving->second == vm.motion->id) continue;
    }
    if (!leaves && !comes) continue;
    const auto ended = arbiter_.end({vm.motion->id, name, vm.host, vm.motion->to});
    if (ended) log::warn("VM {}: its motion to host {} is led by nobody: it was ended", name, vm.motion->to);
  }
}

void Motions::answer(Answer& answer) {
  const std::string peer = answer.peer;
  motion::Conversation there(std::move(answer.call));
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    answer.there = &there;
  }
  const auto said = there.listen(Instant::now() + kFirstWordPatience);
  const bool is_memory = said && *said && (*said)->is("memory") && there.say({{"say", "send"}});
  if (said && *said && (*said)->is("offer")) receive_vm(peer, **said, there);
  {
    const std::lock_guard lock(mutex_);
    answer.there = nullptr;
    if (!is_memory) return;
    const auto id = vmm::text_of((*said)->text, "motion");
    const auto expected = id ? memories_.find(*id) : memories_.end();
    if (expected == memories_.end() || expected->second.from != peer || expected->second.channel != nullptr)
      return;
    expected->second.channel = there.give_channel();
  }
  changed_.notify_all();
}

// False: it cannot come, and why.
bool Motions::claim(const motion::Offer& offer, const std::string& peer, std::string& why) {
  const motion::Motion& motion = offer.motion;
  if (motion.from != peer || motion.to != plane_.host()) {
    why = fmt::format("host {} offers a motion from {} to {}", peer, motion.from, motion.to);
    return false;
  }
  const auto inventory = plane_.inventory();
  const auto vm = inventory->vms.find(motion.vm);
  if (vm == inventory->vms.end() || vm->second.host != peer) {
    why = fmt::format("host {} does not know that VM {} is on host {}: is its store another one?",
                      plane_.host(), motion.vm, peer);
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (stopping_) {
    why = fmt::format("the pvrdmad of host {} stops", plane_.host());
  } else if (arriving_.contains(motion.vm)) {
    why = fmt::format("VM {} is coming to host {} by another motion: wait until that is over", motion.vm,
                      plane_.host());
  }
  if (!why.empty()) return false;
  arriving_.emplace(motion.vm, motion.id);
  memories_.emplace(motion.id, Memory{peer, nullptr});
  return true;
}

void Motions::receive_vm(const std::string& peer, const motion::Said& said, motion::Conversation& there) {
  const auto offer = motion::read_offer(said);
  std::string why;
  if (!offer || !claim(*offer, peer, why)) {
    if (!offer) why = offer.error().message;
    static_cast<void>(there.say(motion::refusal(why)));
    return;
  }
  const motion::Motion& motion = offer->motion;
  Result<motion::ArrivalReport> report = fail(EPIPE, "the other host has gone");
  const bool is_taken = there.say({{"say", "accepted"}}).has_value();
  if (is_taken && !offer->is_question) {
    motion::Destination destination(
        *offer, [this, &motion] { return find_monitor_(motion.vm); }, side_, arbiter_, there,
        [this, &motion](Instant until) { return take_memory(motion.id, until); },
        [this] {
          const std::lock_guard lock(mutex_);
          return stopping_;
        });
    report = destination.run();
  }
  if (offer->is_question) {
    log::debug("VM {}: host {} asks whether it may come here", motion.vm, motion.from);
  } else if (report) {
    log::info(
        "VM {}: it came from host {} (motion {}) and goes on in QEMU (pid {}): state loaded in {} us, "
        "begun in {} us",
        motion.vm, motion.from, motion.id, report->pid, us(report->load), us(report->go_on));
  } else {
    log::warn("VM {}: it did not come from host {} (motion {}): {}", motion.vm, motion.from, motion.id,
              report.error().message);
  }
  const std::lock_guard lock(mutex_);
  if (!offer->is_question) ++(report ? counters_.came : counters_.not_come);
  arriving_.erase(motion.vm);
  memories_.erase(motion.id);
}

Result<std::unique_ptr<ByteChannel>> Motions::take_memory(const std::string& id, Instant until) {
  std::unique_lock lock(mutex_);
  const auto left = std::max<Duration>(until - Instant::now(), Duration{});
  auto& channel = memories_[id].channel;
  changed_.wait_for(lock, left, [&] { return stopping_ || channel != nullptr; });
  if (channel == nullptr) return fail(ETIMEDOUT, "the other host does not send the VM's memory");
  return std::move(channel);
}

}  // namespace pvrdma::daemon
