// OwedAnswers: what the responder of a connection has executed, or refused, and not answered yet, in the
// order of PSNs, which is the order in which answers leave (IBTA vol. 1, 9.7.5.1). Pure. Thread: a value,
// shard-owned.
#pragma once

#include <array>
#include <cstdint>

#include "verbs/ids.h"
#include "verbs/limits.h"
#include "verbs/packets.h"

namespace pvrdma::roce {

struct OwedAnswer {
  enum class Kind : std::uint8_t { kRead, kAtomic, kNak };

  Kind kind{};
  bool begun = false;  // a read's first packet is out
  verbs::ReadAnswer answer = verbs::ReadAnswer::kFirst;
  std::uint8_t syndrome = 0;  // of a NAK
  verbs::Psn psn;             // of the next packet
  std::uint32_t msn = 0;
  std::uint32_t rkey = 0;
  std::uint32_t bytes_left = 0;
  std::uint64_t remote_addr = 0;  // of the bytes left
  std::uint64_t original = 0;     // of an atomic
};

class OwedAnswers {
 public:
  // Reads and atomics, and a NAK of what comes behind them.
  static constexpr std::uint32_t kMost = verbs::kRdAtomicMax + 1;

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kMost; }
  // Not when empty.
  OwedAnswer& front() { return answers_[first_]; }
  void pop() {
    first_ = (first_ + 1) % kMost;
    --count_;
  }
  // Not when full.
  void push(const OwedAnswer& answer) { answers_[(first_ + count_++) % kMost] = answer; }
  // The peer goes back to that packet: answers from there on are asked for again. Returns how many are
  // dropped.
  std::uint32_t drop_from(verbs::Psn psn) {
    const std::uint32_t before = count_;
    while (count_ != 0 && verbs::distance(answers_[(first_ + count_ - 1) % kMost].psn, psn) >= 0) --count_;
    return before - count_;
  }

 private:
  std::array<OwedAnswer, kMost> answers_{};
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace pvrdma::roce
