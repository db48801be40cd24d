// AtomicReplays: the results that a responder repeats when a duplicate of an atomic arrives. An atomic is
// identified by its PSN, which is the same on every path.
//
// Invariant: a PSN is remembered at most once. PSNs wrap, so a connection with few atomics may still remember
// an atomic of 2^24 packets ago when the same PSN comes round again. Thread: a value, shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "verbs/ids.h"
#include "verbs/limits.h"

namespace pvrdma::verbs {

class AtomicReplays {
 public:
  // Keeps the results of the last kRdAtomicMax atomics. A requester never has more of them unanswered.
  void remember(Psn psn, std::uint64_t original) {
    for (Entry& entry : entries_) {
      if (entry.psn == psn) entry.valid = false;
    }
    entries_[next_] = {.original = original, .psn = psn, .valid = true};
    next_ = (next_ + 1) % kRdAtomicMax;
  }

  template <typename Archive>
  void describe(Archive& archive);  // describe.h

  // The value of the word before the atomic changed it.
  std::optional<std::uint64_t> find(Psn psn) const {
    for (const Entry& entry : entries_) {
      if (entry.valid && entry.psn == psn) return entry.original;
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    std::uint64_t original = 0;
    Psn psn;
    bool valid = false;
  };

  std::array<Entry, kRdAtomicMax> entries_{};
  std::uint32_t next_ = 0;  // the oldest entry, which the next one replaces
};

}  // namespace pvrdma::verbs
