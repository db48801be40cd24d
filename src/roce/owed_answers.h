// OwedAnswers: the requests that the responder of a connection has executed or refused, and not answered yet.
// They are in the order of PSNs, in which answers must leave (IBTA vol. 1, 9.7.5.1). Pure. Thread: a value,
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
  bool begun = false;  // the first packet of a read's data was sent
  verbs::ReadAnswer answer = verbs::ReadAnswer::kFirst;
  std::uint8_t syndrome = 0;  // of a NAK
  verbs::Psn psn;             // of the answer's next packet
  std::uint32_t msn = 0;
  std::uint32_t rkey = 0;
  std::uint32_t bytes_left = 0;
  std::uint64_t remote_addr = 0;  // of the first byte that is left
  std::uint64_t original = 0;     // the result of an atomic
};

class OwedAnswers {
 public:
  // All reads and atomics that a peer may have unanswered, and a NAK for the request behind them.
  static constexpr std::uint32_t kMost = verbs::kRdAtomicMax + 1;

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kMost; }
  // Must not be empty.
  OwedAnswer& front() { return answers_[first_]; }
  void pop() {
    first_ = (first_ + 1) % kMost;
    --count_;
  }
  // Must not be full.
  void push(const OwedAnswer& answer) { answers_[(first_ + count_++) % kMost] = answer; }
  // The peer goes back to that packet, and will ask again for the answers from there on. Returns how many
  // answers were dropped.
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
