#include "calls/incoming_calls.h"

#include <utility>

#include "base/check.h"
#include "base/control_thread.h"

namespace pvrdma::calls {

IncomingCall::IncomingCall(std::unique_ptr<transport::tcp::Call> call, std::stop_token stop)
    : peer_(call->peer()), there_(std::move(call), peer_), stop_(std::move(stop)) {
  interrupts_.emplace(stop_, [this] { there_.interrupt(); });
}

std::unique_ptr<ByteChannel> IncomingCall::give_channel() {
  interrupts_.reset();
  return there_.give_channel();
}

IncomingCalls::IncomingCalls() : clerk_([this] { hand_on(); }) {}

void IncomingCalls::on(std::string first_word, Answer answer) {
  const std::lock_guard lock(mutex_);
  const bool is_new = answers_.emplace(std::move(first_word), std::move(answer)).second;
  PVRDMA_CHECK(is_new, "a first word has one answer");
}

void IncomingCalls::interrupt() {
  {
    const std::lock_guard lock(waiting_mutex_);
    takes_calls_ = false;
  }
  call_came_.notify_all();
  jobs_.interrupt();
}

void IncomingCalls::stop() {
  interrupt();
  if (clerk_.joinable()) clerk_.join();
  jobs_.stop();
}

void IncomingCalls::take(std::unique_ptr<transport::tcp::Stream> stream, std::string peer) {
  auto call = std::make_unique<transport::tcp::Call>(std::move(stream), std::move(peer));
  {
    const std::lock_guard lock(waiting_mutex_);
    if (!takes_calls_ || waiting_count_ == kWaitingMax) return;
    waiting_[(first_waiting_ + waiting_count_++) % kWaitingMax] = std::move(call);
  }
  call_came_.notify_one();
}

// Null: calls are not taken any more.
std::unique_ptr<transport::tcp::Call> IncomingCalls::next() {
  std::unique_lock lock(waiting_mutex_);
  call_came_.wait(lock, [&] { return !takes_calls_ || waiting_count_ > 0; });
  if (!takes_calls_) return nullptr;
  auto call = std::move(waiting_[first_waiting_]);
  first_waiting_ = (first_waiting_ + 1) % kWaitingMax;
  --waiting_count_;
  return call;
}

// Runs on the clerk's thread.
void IncomingCalls::hand_on() {
  begin_control_thread("calls");
  while (auto call = next()) begin(std::move(call));
}

void IncomingCalls::begin(std::unique_ptr<transport::tcp::Call> call) {
  const std::string peer = call->peer();
  if (!has_place(peer)) return;
  const auto begun = jobs_.start([this, peer, call = std::move(call)](const std::stop_token& stop) mutable {
    answer(std::move(call), stop);
    leave_place(peer);
  });
  if (begun) return;
  leave_place(peer);
  if (!jobs_.is_stopping() && dropped_log_.allow(Instant::now()))
    log::warn("a call of host {} is dropped: {}{}", peer, begun.error().message,
              log::held_back(dropped_log_));
}

bool IncomingCalls::has_place(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  std::size_t& of_peer = answered_[peer];
  if (answered_count_ < kAnsweredMax && of_peer < kAnsweredOfHostMax) {
    ++answered_count_;
    ++of_peer;
    return true;
  }
  if (dropped_log_.allow(Instant::now()))
    log::warn("a call of host {} is dropped: {} of its calls and {} of all hosts are being answered{}", peer,
              of_peer, answered_count_, log::held_back(dropped_log_));
  if (of_peer == 0) answered_.erase(peer);
  return false;
}

void IncomingCalls::leave_place(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  --answered_count_;
  if (--answered_.at(peer) == 0) answered_.erase(peer);
}

void IncomingCalls::answer(std::unique_ptr<transport::tcp::Call> call, const std::stop_token& stop) {
  IncomingCall answered(std::move(call), stop);
  const auto first = answered.there().listen(Instant::now() + kFirstWordPatience);
  if (!first || !*first) return;
  if (const Answer* const answer = answer_of(**first); answer != nullptr) (*answer)(answered, **first);
}

// Null: no answer was registered for this word.
const IncomingCalls::Answer* IncomingCalls::answer_of(const Said& first) {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(first.word);
  return found != answers_.end() ? &found->second : nullptr;
}

}  // namespace pvrdma::calls
