// EntryShares: how many connections of one address may wait for their handshake, and how many may begin one
// in a second. Each address has its own, so that nobody who knocks takes the place of another.
//
// Only addresses of peers get here: there are as many shares as peers at most. Thread: as its owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/ip_address.h"
#include "base/time.h"

namespace pvrdma::transport::tcp {

class EntryShares {
 public:
  // `share`: so many wait at a time, and so many begin a handshake in a second on average.
  explicit EntryShares(std::uint32_t share) : share_(share) {}

  std::uint32_t share() const { return share_; }

  // One more of this address knocks. False: not now. True: leave() follows.
  bool enter(const IpAddress& from, Instant now) {
    Entry& entry = entries_.try_emplace(from, Entry{.tokens = share_, .filled = now}).first->second;
    const Duration each = Duration(std::chrono::seconds(1)) / share_;
    const std::int64_t earned = (now - entry.filled) / each;
    if (earned > 0) {
      entry.tokens = static_cast<std::uint32_t>(std::min<std::int64_t>(share_, entry.tokens + earned));
      entry.filled = entry.filled + earned * each;
    }
    if (entry.waiting == share_ || entry.tokens == 0) return false;
    --entry.tokens;
    ++entry.waiting;
    return true;
  }
  void leave(const IpAddress& from) { --entries_.at(from).waiting; }

  // Who is no peer any more needs no share; `stays` says who is.
  template <typename Stays>
  void forget_unless(Stays stays) {
    std::erase_if(entries_,
                  [&](const auto& entry) { return entry.second.waiting == 0 && !stays(entry.first); });
  }

 private:
  struct Entry {
    std::uint32_t waiting = 0;
    std::uint32_t tokens = 0;
    Instant filled{};
  };

  const std::uint32_t share_;
  std::map<IpAddress, Entry> entries_;
};

}  // namespace pvrdma::transport::tcp
