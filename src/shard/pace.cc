#include "shard/pace.h"

#include <algorithm>

namespace pvrdma::shard {

void Pace::worked(Instant began, Instant now) {
  const bool at_once = began == last_work_;  // there was no turn without work in between
  if (wait_ == Wait::kSpin && !at_once) spin_paid(began - last_work_);
  if (wait_ == Wait::kSleep) slept(began - last_work_);
  wait_ = Wait::kNone;
  last_work_ = now;
}

bool Pace::spins(Instant now) {
  const bool spins = config_.longest_window == Duration::max() || now - last_work_ < window();
  if (spins) wait_ = Wait::kSpin;
  return spins;
}

Pace::Sleep Pace::sleep(Instant now, Instant deadline, bool polls) {
  polls_ = polls;
  if (deadline <= now || (polls && config_.never_sleeps_while_polling)) {
    wait_ = Wait::kSpin;
    return {};
  }
  wait_ = Wait::kSleep;
  const Duration announced = deadline == Instant::never() ? Duration::max() : deadline - now;
  const Duration look = std::clamp((now - last_work_) / kPausePerLook, kShortestLook, kLongestLook);
  if (polls && look < announced) return {look, true};
  return {announced, false};
}

void Pace::spin_paid(Duration took) {
  if (!polls_) return announced_.spin_paid();
  const Duration worth = std::min(config_.longest_window, took * kWindowPerPaid);
  window_ = std::max(window_ / 10 * 9, worth);
}

void Pace::slept(Duration pause) {
  if (!polls_) return announced_.slept(pause);
  if (pause >= kShortPause) return;
  if (++short_pauses_ >= kShortPausesPerTry) {
    short_pauses_ = 0;
    window_ = config_.longest_window;
    return;
  }
  window_ = std::max(window_ / 10 * 7, std::min(kShortestWindow, config_.longest_window));
}

}  // namespace pvrdma::shard
