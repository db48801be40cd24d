// Pace: for how long after work a shard looks for more before it sleeps, and for how long it then sleeps.
//
// Work is announced by a descriptor or due at a deadline: AdaptiveSpin says whether to spin for it. Or
// something polls (Pollable::polls()): then sleeps are timed looks. What they add to the wait of work is an
// eighth at most of the pause that was before it, and idling gets cheap within milliseconds.
//
// While something polls, spinning follows what pays. A spin that work ended has saved a sleep, so the next
// may be as long as a few of those times were; a short pause that a sleep ended has cost one, and where two
// guests and a shard share few cores, spinning longer only keeps them off their core. The window so finds the
// times at which work comes, and now and then tries its longest again. Announced work wants it otherwise:
// each doorbell is a round trip with its VMM, and a spin in four that saves a wake-up there is worth the
// others.
//
// Pure: times are arguments, and the same calls give the same answers. Thread: owned by one thread (the
// shard).
#pragma once

#include <cstdint>

#include "base/time.h"
#include "shard/adaptive_spin.h"

namespace pvrdma::shard {

struct PaceConfig {
  Duration longest_window{};                // of a spin. 0: never spins. Duration::max(): never sleeps.
  bool never_sleeps_while_polling = false;  // the shard has a core to itself
};

class Pace {
 public:
  // Of spins while something polls.
  static constexpr Duration kShortestWindow = std::chrono::microseconds(2);
  static constexpr Duration kShortPause = std::chrono::milliseconds(1);  // longer ones say nothing of spins
  static constexpr int kWindowPerPaid = 4;                  // the window, in times that a paid spin took
  static constexpr std::uint32_t kShortPausesPerTry = 256;  // of the longest window
  // Of timed looks. A sleep of a few microseconds costs more CPU time than it lasts.
  static constexpr Duration kShortestLook = std::chrono::microseconds(20);
  static constexpr Duration kLongestLook = std::chrono::milliseconds(4);
  static constexpr int kPausePerLook = 8;  // the pause so far, in looks

  // How long the next turn may wait in the kernel: Duration::max(): until something is announced.
  struct Sleep {
    Duration longest{};
    bool timed_look = false;  // it ends early because something polls
  };

  explicit Pace(const PaceConfig& config)
      : config_(config), announced_(config.longest_window), window_(config.longest_window) {}

  // A turn has ended, at `now`, in which there was work; it began, after its wait, at `began`.
  void worked(Instant began, Instant now);
  // A turn has ended that left nothing to do. True: the next one follows without waiting.
  bool spins(Instant now);
  // If it does not: how long it may wait until `deadline` (never(): there is none). `polls`: somebody does.
  Sleep sleep(Instant now, Instant deadline, bool polls);

  // Whether something polled when a spin ended last.
  bool polls() const { return polls_; }

  Duration window() const { return polls_ ? window_ : announced_.window(); }

 private:
  enum class Wait : std::uint8_t { kNone, kSpin, kSleep };

  void spin_paid(Duration took);
  void slept(Duration pause);

  const PaceConfig config_;
  AdaptiveSpin announced_;  // while nothing polls
  Duration window_;         // while something does
  Instant last_work_{};
  bool polls_ = false;              // when a spin ended last
  Wait wait_ = Wait::kNone;         // between the last work and now
  std::uint32_t short_pauses_ = 0;  // that sleeps ended, since the longest window was tried
};

}  // namespace pvrdma::shard
