// ParkedRequests: connection requests for ports whose listener has just gone. They wait a moment for the next
// one, and are refused only then.
//
// perftest's -R needs it: its server closes a listener and listens again on the same port while its client,
// which handles no refusal, connects. A kernel's slow address resolution hides that.
//
// Bounded by kParkedMax. Thread: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/time.h"
#include "cm/mad.h"

namespace pvrdma::cm {

inline constexpr std::size_t kParkedMax = 64;

struct ParkedRequest {
  Gid from{};
  Gid to{};
  std::uint64_t transaction = 0;
  Req req;
  std::uint16_t port = 0;
  Instant since;
};

class ParkedRequests {
 public:
  void note_closed(std::uint16_t port, Instant now);

  // False: the port's listener has not just gone, or there is no room. A repeated request is there already.
  bool park(const ParkedRequest& request);

  std::vector<ParkedRequest> take(std::uint16_t port);
  // Takes the requests that have waited long enough.
  std::vector<ParkedRequest> take_due(Instant now);
  Instant deadline() const;

  // The peer has given its request up.
  void forget(const Gid& from, std::uint32_t local_id);

 private:
  std::vector<ParkedRequest> requests_;         // the oldest first
  std::map<std::uint16_t, Instant> closed_at_;  // the recent ones
};

}  // namespace pvrdma::cm
