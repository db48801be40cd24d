// Pace: how long a shard spins after work before it sleeps, and how long it then sleeps.
//
// Usually work is announced by a descriptor or due at a deadline. AdaptiveSpin then says how long to spin for
// it. If something polls (Pollable::polls()), sleeps become timed looks. A timed look lasts an eighth of the
// time without work so far. So it delays work by at most an eighth of that time, and idling becomes cheap
// within milliseconds.
//
// While something polls, the window of spins follows their success. A spin that work ended has saved a sleep,
// so the next may last a few times as long. If a sleep ended a short pause, the spin before it was wasted,
// and the window shrinks: where two guests and a shard share few cores, longer spins only keep the guests off
// their core. So the window adapts to the intervals of work, and now and then its longest value is tried
// again. Announced work needs another rule: each doorbell is a round trip with its VMM, so spinning pays even
// if only one spin in four saves a wake-up.
//
// Pure: times are arguments, and the same calls give the same answers. Thread: owned by one thread (the
// shard).
#pragma once

#include <cstdint>

#include "base/time.h"
#include "shard/adaptive_spin.h"

namespace pvrdma::shard {

struct PaceConfig {
  Duration longest_window{};                // longest spin. 0: never spins. Duration::max(): never sleeps.
  bool never_sleeps_while_polling = false;  // the shard has a core to itself
};

class Pace {
 public:
  // The shortest window of spins while something polls.
  static constexpr Duration kShortestWindow = std::chrono::microseconds(2);
  // Longer pauses say nothing about spins.
  static constexpr Duration kShortPause = std::chrono::milliseconds(1);
  // The new window, as a multiple of the time that a successful spin took.
  static constexpr int kWindowPerPaid = 4;
  // How many short pauses pass before the longest window is tried.
  static constexpr std::uint32_t kShortPausesPerTry = 256;
  // The shortest timed look. A sleep of a few microseconds costs more CPU time than it lasts.
  static constexpr Duration kShortestLook = std::chrono::microseconds(20);
  static constexpr Duration kLongestLook = std::chrono::milliseconds(4);
  static constexpr int kPausePerLook = 8;  // the pause so far, as a multiple of the next look

  // How long the next turn may wait in the kernel. Duration::max(): until an event.
  struct Sleep {
    Duration longest{};
    bool timed_look = false;  // the wait is shortened because something polls
  };

  explicit Pace(const PaceConfig& config)
      : config_(config), announced_(config.longest_window), window_(config.longest_window) {}

  // A turn with work has ended at `now`. Its work began, after its wait, at `began`.
  void worked(Instant began, Instant now);
  // A turn has ended and left nothing to do. True: the next turn follows without waiting.
  bool spins(Instant now);
  // How long the next turn may wait if spins() is false. `deadline` is never() if there is none. `polls`:
  // something polls.
  Sleep sleep(Instant now, Instant deadline, bool polls);

  // Whether something polled when the last spin ended.
  bool polls() const { return polls_; }

  Duration window() const { return polls_ ? window_ : announced_.window(); }

 private:
  enum class Wait : std::uint8_t { kNone, kSpin, kSleep };

  void spin_paid(Duration took);
  void slept(Duration pause);

  const PaceConfig config_;
  AdaptiveSpin announced_;  // while nothing polls
  Duration window_;         // while something polls
  Instant last_work_{};
  bool polls_ = false;              // when the last spin ended
  Wait wait_ = Wait::kNone;         // between the last work and now
  std::uint32_t short_pauses_ = 0;  // pauses ended by sleeps since the longest window was last tried
};

}  // namespace pvrdma::shard
