// TurnWatch: notices turns that delay everything else, and names what took long in them.
//
// It reads no clock: the loop passes the time whenever it knows it, at the end of a piece of work. A name is
// made only after a piece of work that took long.
//
// It also tells how much of a long turn the thread ran. If that is most of it, the work was long. If it is
// little, the thread waited: the machine had no core for it, or the kernel had to get a page of guest memory.
// The thread's CPU clock is a system call. So the loop reads it when a turn begins that is kCpuReadApart or
// more after the last reading, and after a long turn. That makes the CPU time at most kCpuReadApart too long.
//
// Thread: owned by one thread (the shard).
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>

#include "base/log.h"
#include "base/time.h"

namespace pvrdma::shard {

class TurnWatch {
 public:
  static constexpr Duration kLongTurn = std::chrono::milliseconds(10);
  static constexpr Duration kCpuReadApart = std::chrono::milliseconds(1);

  // `shard` is the shard's number, for the log.
  explicit TurnWatch(std::uint32_t shard) : shard_(shard) {}

  // A turn's work begins. `cpu()` returns the CPU time that the thread has used.
  template <typename Cpu>
  void begin(Instant now, Cpu&& cpu) {
    began_ = mark_ = now;
    longest_ = Duration{0};
    if (now - cpu_read_ < kCpuReadApart) [[likely]]
      return;
    cpu_read_ = now;
    cpu_used_ = cpu();
  }
  // The piece of work that began at the last mark has ended. `name()` returns a std::string.
  template <typename Name>
  void ran(Instant now, Name&& name) {
    const Duration took = now - mark_;
    mark_ = now;
    if (took < kWorthNaming || took <= longest_) [[likely]]
      return;
    longest_ = took;
    try {
      longest_name_ = name();
    } catch (const std::bad_alloc&) {
      longest_name_ = "unnamed";  // short enough to allocate nothing
    }
  }
  // The turn is over. True: it was long.
  template <typename Cpu>
  bool end(Instant now, Cpu&& cpu) {
    if (now - began_ < kLongTurn) [[likely]]
      return false;
    report(now, std::clamp(cpu() - cpu_used_, Duration{0}, now - began_));
    return true;
  }

  Instant began() const { return began_; }
  std::uint64_t long_turns() const { return long_turns_; }
  std::uint64_t long_turns_us() const { return long_turns_us_; }          // total of all long turns
  std::uint64_t long_turns_cpu_us() const { return long_turns_cpu_us_; }  // in which the thread ran

 private:
  static constexpr Duration kWorthNaming = std::chrono::milliseconds(1);

  void report(Instant now, Duration cpu);

  const std::uint32_t shard_;
  Instant began_{};
  Instant mark_{};
  Duration longest_{0};       // of one piece of work in this turn
  std::string longest_name_;  // valid only while longest_ is not 0
  std::uint64_t long_turns_ = 0;
  std::uint64_t long_turns_us_ = 0;
  std::uint64_t long_turns_cpu_us_ = 0;
  Instant cpu_read_{};  // when cpu_used_ was read, at the beginning of this turn or less than 1 ms before it
  Duration cpu_used_{0};
  log::LogLimiter limiter_{10, std::chrono::seconds(10)};
};

}  // namespace pvrdma::shard
