// TurnWatch: notices turns that delay everything else, and names what took long in them.
//
// It does not read the time: the loop passes it whenever it knows it, at the end of a piece of work. A name
// is made only after a piece of work that took long.
//
// With Blame (base/blame.h) it finds out which adapter made a turn long, if it was one.
//
// It also tells how much of a long turn the thread ran. If that is most of it, the work was long. If it is
// little, the thread waited: the machine had no core for it, or the kernel had to get a page of guest memory.
// The thread's CPU clock is a system call. So it is read when a turn begins that is kCpuReadApart or
// more after the last reading, and after a long turn. That makes the CPU time at most kCpuReadApart too long.
//
// Thread: owned by one thread (the shard).
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>

#include "base/blame.h"
#include "base/log.h"
#include "base/time.h"

namespace pvrdma::shard {

class TurnWatch {
 public:
  static constexpr Duration kLongTurn = std::chrono::milliseconds(10);
  static constexpr Duration kCpuReadApart = std::chrono::milliseconds(1);

  // `shard` is the shard's number, for the log. `clock` and `blame` are borrowed.
  TurnWatch(std::uint32_t shard, const Clock& clock, Blame& blame)
      : shard_(shard), clock_(clock), blame_(blame) {}

  // A turn's work begins.
  void begin(Instant now) {
    began_ = mark_ = now;
    longest_ = Duration{0};
    blame_.begin_turn(now);
    if (now - times_read_ < kCpuReadApart) [[likely]]
      return;
    times_read_ = now;
    times_ = times();
  }
  // The turn has slept since it began, and its work begins now. That sleep must not be taken for one of the
  // work.
  void woke_up(Instant now) {
    if (blame_.is_watching()) [[unlikely]]
      times_read_ = Instant{};
    begin(now);
  }
  // The piece of work that began at the last mark has ended. `name()` returns a std::string.
  template <typename Name>
  void ran(Instant now, Name&& name) {
    const Duration took = now - mark_;
    mark_ = now;
    if (took < kWorthNaming || took <= longest_) [[likely]]
      return;
    name_longest(took, name);
  }
  // The turn is over. True: it was long.
  bool end(Instant now) {
    if (now - began_ < kLongTurn) [[likely]]
      return false;
    report(now);
    return true;
  }

  Instant began() const { return began_; }
  std::uint64_t long_turns() const { return long_turns_; }
  std::uint64_t long_turns_us() const { return long_turns_us_; }          // total of all long turns
  std::uint64_t long_turns_cpu_us() const { return long_turns_cpu_us_; }  // in which the thread ran
  std::uint64_t long_turns_unblamed() const { return long_turns_unblamed_; }

 private:
  static constexpr Duration kWorthNaming = std::chrono::milliseconds(1);

  // How the thread has spent its time; only its CPU time while nobody can be blamed.
  ThreadTimes times() const {
    return blame_.is_watching() ? clock_.thread_times()
                                : ThreadTimes{.ran = clock_.thread_cpu(), .off_core = {}};
  }
  template <typename Name>
  void name_longest(Duration took, Name&& name) {
    longest_ = took;
    try {
      longest_name_ = name();
    } catch (const std::bad_alloc&) {
      longest_name_ = "unnamed";  // short enough to allocate nothing
    }
  }
  void report(Instant now);

  const std::uint32_t shard_;
  const Clock& clock_;
  Blame& blame_;
  Instant began_{};
  Instant mark_{};
  Duration longest_{0};       // of one piece of work in this turn
  std::string longest_name_;  // valid only while longest_ is not 0
  std::uint64_t long_turns_ = 0;
  std::uint64_t long_turns_us_ = 0;
  std::uint64_t long_turns_cpu_us_ = 0;
  std::uint64_t long_turns_unblamed_ = 0;
  Instant times_read_{};  // when times_ was read, at the beginning of this turn or less than 1 ms before it
  ThreadTimes times_;
  log::LogLimiter limiter_{10, std::chrono::seconds(10)};
};

}  // namespace pvrdma::shard
