// Offences: which adapters belong into the ward, because they made their shard serve others late again and
// again: twice within a minute for at least 20 ms. An adapter that is quiet for a minute does not belong
// there any more.
//
// A move that is refused is tried again after a pause, which doubles each time: to find out that the ward
// cannot take an adapter may cost its shard a long turn.
//
// It remembers a bounded number of adapters. The one whose last offence is the oldest makes room.
//
// Pure: times are arguments, and the same calls give the same answers. Thread: as its owner.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "adapters/offence.h"
#include "base/blame.h"
#include "base/time.h"

namespace pvrdma::adapters {

class Offences {
 public:
  static constexpr Duration kLeast = Blame::kLongPiece;
  static constexpr Duration kWithin = std::chrono::minutes(1);
  static constexpr std::size_t kAdaptersMax = 1024;

  static constexpr Duration kFirstPause = std::chrono::seconds(1);

  explicit Offences(Duration first_pause = kFirstPause) : first_pause_(first_pause) {}

  void note(const Offence& offence, Instant now);
  // The adapters that are to be moved into the ward now, each with its longest offence.
  std::vector<Offence> due(Instant now);
  // When one is due, if nothing is noted before; never() if there is none.
  Instant next_due() const;
  // The adapter's move was refused.
  void put_off(const std::string& adapter, Instant now);
  void forget(const std::string& adapter) { known_.erase(adapter); }

 private:
  struct Known {
    Instant last;
    Duration longest{0};
    Instant due = Instant::never();  // never: there were not yet two within a minute
    Duration pause{0};
  };
  void forget_quiet(Instant now);

  const Duration first_pause_;
  std::map<std::string, Known> known_;  // by adapter
};

}  // namespace pvrdma::adapters
