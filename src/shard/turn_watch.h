// TurnWatch: notices turns that delay everything else, and names what took long in them.
//
// It reads no clock: the loop passes the time whenever it knows it, at the end of a piece of work. A name is
// made only after a piece of work that took long. Thread: owned by one thread (the shard).
#pragma once

#include <cstdint>
#include <new>
#include <string>

#include "base/log.h"
#include "base/time.h"

namespace pvrdma::shard {

class TurnWatch {
 public:
  static constexpr Duration kLongTurn = std::chrono::milliseconds(10);

  // A turn's work begins.
  void begin(Instant now) {
    began_ = mark_ = now;
    longest_ = Duration{0};
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
  bool end(Instant now) {
    if (now - began_ < kLongTurn) [[likely]]
      return false;
    report(now);
    return true;
  }

  Instant began() const { return began_; }
  std::uint64_t long_turns() const { return long_turns_; }
  std::uint64_t long_turns_us() const { return long_turns_us_; }  // total of all long turns

 private:
  static constexpr Duration kWorthNaming = std::chrono::milliseconds(1);

  void report(Instant now);

  Instant began_{};
  Instant mark_{};
  Duration longest_{0};       // of one piece of work in this turn
  std::string longest_name_;  // valid only while longest_ is not 0
  std::uint64_t long_turns_ = 0;
  std::uint64_t long_turns_us_ = 0;
  log::LogLimiter limiter_{10, std::chrono::seconds(10)};
};

}  // namespace pvrdma::shard
