#include "pvrdmad/arrivals.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fmt/core.h>
#include <system_error>
#include <thread>
#include <utility>

#include "base/control_thread.h"

namespace pvrdma::daemon {

struct Arrivals::Answer {
  std::unique_ptr<transport::tcp::Call> call;  // given away when it is memory
  std::string peer;
  motion::Conversation* there = nullptr;  // guarded by mutex_; borrowed, while there is one
  std::atomic<bool> is_over = false;
  std::thread thread;
};

Arrivals::Arrivals(control::Plane& plane, motion::MovingSide& side, motion::Arbiter& arbiter,
                   const FindMonitor& find_monitor, const AnswerOther& answer_other)
    : plane_(plane),
      side_(side),
      arbiter_(arbiter),
      find_monitor_(find_monitor),
      answer_other_(answer_other) {}

Arrivals::~Arrivals() {
  stop();
}

void Arrivals::interrupt() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& answer : answers_) {
      if (answer->there != nullptr) answer->there->interrupt();
    }
  }
  changed_.notify_all();
}

void Arrivals::stop() {
  interrupt();
  for (const auto& answer : answers_) answer->thread.join();
  answers_.clear();
}

bool Arrivals::is_stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void Arrivals::answer(std::unique_ptr<transport::tcp::Call> call) {
  const std::string peer = call->peer();
  const auto drop = [&](const std::string& why) {
    if (!dropped_log_.allow(Instant::now())) return;
    log::warn("a call of host {} is dropped: {}{}", peer, why, log::held_back(dropped_log_));
  };
  const std::lock_guard lock(mutex_);
  std::erase_if(answers_, [](const auto& answer) {
    if (!answer->is_over) return false;
    answer->thread.join();
    return true;
  });
  const auto of_peer =
      std::ranges::count_if(answers_, [&peer](const auto& answer) { return answer->peer == peer; });
  if (stopping_) return;
  if (answers_.size() >= kCallsMax || std::cmp_greater_equal(of_peer, kCallsOfHostMax))
    return drop(
        fmt::format("{} of its calls and {} of all hosts are being answered", of_peer, answers_.size()));
  auto made = std::make_unique<Answer>();
  made->peer = peer;
  made->call = std::move(call);
  Answer& one = *made;
  answers_.push_back(std::move(made));
  try {
    one.thread = std::thread([this, &one] {
      begin_control_thread("motion");
      talk(one);
      one.is_over = true;
    });
  } catch (const std::system_error& refused) {
    answers_.pop_back();
    drop(fmt::format("no thread for it: {}", refused.what()));
  }
}

void Arrivals::talk(Answer& answer) {
  const std::string peer = answer.peer;
  motion::Conversation there(std::move(answer.call), peer);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    answer.there = &there;
  }
  const auto said = there.listen(Instant::now() + motion::kFirstWordPatience);
  const bool is_memory = said && *said && (*said)->is("memory") && there.say({{"say", "send"}});
  if (said && *said && (*said)->is("offer")) {
    receive_vm(peer, **said, there);
  } else if (said && *said && !is_memory && answer_other_) {
    answer_other_(peer, **said, there);
  }
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
bool Arrivals::claim(const motion::Offer& offer, const std::string& peer, std::string& why) {
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
  } else if (memories_.contains(motion.id)) {
    why = fmt::format("the motion {} that brings VM {} to host {} is another VM's", motion.id, motion.vm,
                      plane_.host());
  }
  if (!why.empty()) return false;
  arriving_.emplace(motion.vm, motion.id);
  memories_.emplace(motion.id, Memory{peer, nullptr});
  return true;
}

void Arrivals::receive_vm(const std::string& peer, const motion::Said& said, motion::Conversation& there) {
  const auto offer = motion::read_offer(said);
  std::string why;
  if (!offer || !claim(*offer, peer, why)) {
    if (!offer) why = offer.error().message;
    static_cast<void>(there.say(motion::refusal(why)));
    return;
  }
  const motion::Motion& motion = offer->motion;
  Result<motion::ArrivalReport> outcome = fail(EPIPE, fmt::format("host {} has gone", peer));
  const bool is_taken = there.say(motion::acceptance()).has_value();
  if (is_taken && !offer->is_question) {
    log::info("VM {}: it is to come from host {} (motion {})", motion.vm, motion.from, motion.id);
    motion::Destination destination(
        *offer, [this, &motion] { return find_monitor_(motion.vm); }, side_, arbiter_, there,
        [this, &motion](Instant until) { return take_memory(motion, until); },
        [this] { return is_stopping(); });
    outcome = destination.run();
  }
  report(*offer, outcome);
  const std::lock_guard lock(mutex_);
  if (!offer->is_question) ++(outcome ? came_ : not_come_);
  arriving_.erase(motion.vm);
  memories_.erase(motion.id);
}

void Arrivals::report(const motion::Offer& offer, const Result<motion::ArrivalReport>& report) {
  const motion::Motion& motion = offer.motion;
  if (offer.is_question) {
    log::debug("VM {}: host {} asks whether it may come here", motion.vm, motion.from);
  } else if (report) {
    log::info(
        "VM {}: it came from host {} (motion {}) and goes on in QEMU (pid {}): state loaded in {} us, "
        "begun in {} us",
        motion.vm, motion.from, motion.id, report->pid, microseconds_of(report->load),
        microseconds_of(report->go_on));
  } else {
    log::warn("VM {}: it did not come from host {} (motion {}): {}", motion.vm, motion.from, motion.id,
              report.error().message);
  }
}

Result<std::unique_ptr<ByteChannel>> Arrivals::take_memory(const motion::Motion& motion, Instant until) {
  std::unique_lock lock(mutex_);
  const auto left = std::max<Duration>(until - Instant::now(), Duration{});
  auto& channel = memories_[motion.id].channel;
  changed_.wait_for(lock, left, [&] { return stopping_ || channel != nullptr; });
  if (channel == nullptr)
    return fail(ETIMEDOUT, fmt::format("host {} does not send VM {}'s memory", motion.from, motion.vm));
  return std::move(channel);
}

bool Arrivals::leads(const std::string& vm, const std::string& motion) {
  const std::lock_guard lock(mutex_);
  const auto found = arriving_.find(vm);
  return found != arriving_.end() && found->second == motion;
}

void Arrivals::add_to(control::MotionCounters& counters) {
  const std::lock_guard lock(mutex_);
  counters.came += came_;
  counters.not_come += not_come_;
}

}  // namespace pvrdma::daemon
