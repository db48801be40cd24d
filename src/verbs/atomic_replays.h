// AtomicReplays: what a responder answers again when a duplicate of an atomic arrives.
//
// Invariant: a number is remembered once. Numbers wrap, and a connection with few atomics still remembers one
// of 2^24 messages ago when the same number comes round. Thread: a value, shard-owned.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "verbs/ids.h"
#include "verbs/limits.h"

namespace pvrdma::verbs {

class AtomicReplays {
 public:
  // The results of the last kRdAtomicMax atomics are kept: a requester has no more unanswered.
  void remember(MessageNumber number, std::uint64_t original) {
    const auto same = find_entry(number);
    if (same != entries_.end()) same->valid = false;
    entries_[next_] = {.original = original, .number = number, .valid = true};
    next_ = (next_ + 1) % kRdAtomicMax;
  }

  // What the word was before message `number` changed it.
  std::optional<std::uint64_t> find(MessageNumber number) {
    const auto found = find_entry(number);
    return found != entries_.end() ? std::optional(found->original) : std::nullopt;
  }

 private:
  struct Entry {
    std::uint64_t original = 0;
    MessageNumber number;
    bool valid = false;
  };
  using Entries = std::array<Entry, kRdAtomicMax>;

  Entries::iterator find_entry(MessageNumber number) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [number](const Entry& entry) { return entry.valid && entry.number == number; });
  }

  Entries entries_{};
  std::uint32_t next_ = 0;  // the oldest, which is replaced next
};

}  // namespace pvrdma::verbs
