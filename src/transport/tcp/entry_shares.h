// EntryShares: limits how many connections of one address may wait for their handshake, and how many may
// begin one in a second. Each address has its own share, so one address cannot take another's place.
//
// Only the addresses of peers get here, so there are at most as many shares as peers. Thread: as its owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/ip_address.h"
#include "base/time.h"

namespace pvrdma::transport::tcp {

class EntryShares {
 public:
  // Asks to let in one more connection of this address. `share`, at least 1, is how many may wait at a time,
  // and how many may begin a handshake in a second on average. False: not now. True: leave() must follow.
  bool enter(const IpAddress& from, std::uint32_t share, Instant now) {
    Entry& entry = entries_.try_emplace(from, Entry{.tokens = share, .filled = now}).first->second;
    const Duration each = Duration(std::chrono::seconds(1)) / share;
    const std::int64_t earned = (now - entry.filled) / each;
    if (earned > 0) {
      entry.tokens = static_cast<std::uint32_t>(std::min<std::int64_t>(share, entry.tokens + earned));
      entry.filled = entry.filled + earned * each;
    }
    if (entry.waiting >= share || entry.tokens == 0) return false;
    --entry.tokens;
    ++entry.waiting;
    return true;
  }
  void leave(const IpAddress& from) { --entries_.at(from).waiting; }

  // Removes the shares of addresses that are no longer a peer's; `stays` says which still are.
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

  std::map<IpAddress, Entry> entries_;
};

}  // namespace pvrdma::transport::tcp
