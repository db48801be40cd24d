// AtomicReplays: what a responder answers again when a duplicate of an atomic arrives.
//
// Invariant: a message number is remembered once. Numbers wrap, and a connection with few atomics still
// remembers one of 2^24 messages ago when the same number comes round. Thread: a value, shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "verbs/ids.h"
#include "verbs/limits.h"

namespace pvrdma::verbs {

class AtomicReplays {
 public:
  // The results of the last kRdAtomicMax atomics are kept: a requester has no more unanswered.
  void remember(MessageNumber number, Psn psn, std::uint64_t original) {
    for (Entry& entry : entries_) {
      if (entry.number == number) entry.valid = false;
    }
    entries_[next_] = {.original = original, .number = number, .psn = psn, .valid = true};
    next_ = (next_ + 1) % kRdAtomicMax;
  }

  template <typename Archive>
  void describe(Archive& archive);  // describe.h

  // What the word was before the message changed it: the last one with that number, or PSN.
  std::optional<std::uint64_t> find(MessageNumber number) const {
    return find_last([number](const Entry& entry) { return entry.number == number; });
  }
  std::optional<std::uint64_t> find(Psn psn) const {
    return find_last([psn](const Entry& entry) { return entry.psn == psn; });
  }

 private:
  struct Entry {
    std::uint64_t original = 0;
    MessageNumber number;
    Psn psn;
    bool valid = false;
  };

  template <typename Matches>
  std::optional<std::uint64_t> find_last(Matches matches) const {
    for (std::uint32_t back = 1; back <= kRdAtomicMax; ++back) {
      const Entry& entry = entries_[(next_ + kRdAtomicMax - back) % kRdAtomicMax];
      if (entry.valid && matches(entry)) return entry.original;
    }
    return std::nullopt;
  }

  std::array<Entry, kRdAtomicMax> entries_{};
  std::uint32_t next_ = 0;  // the oldest, which is replaced next
};

}  // namespace pvrdma::verbs
