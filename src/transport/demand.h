// Demand: whether anything needs the connections to a peer, which are made on demand. Paths hold them, and
// datagrams need them for a minute.
//
// Thread: shard-owned.
#pragma once

#include <memory>

#include "base/time.h"

namespace pvrdma::transport {

// Connections that nothing has needed for this long rest.
inline constexpr Duration kRestAfter = std::chrono::minutes(1);

class Demand {
 public:
  // `owner`, whose connections are needed as long as somebody has the pointer. The pointer may outlive the
  // owner, but does not keep it alive.
  template <typename Owner>
  std::shared_ptr<Owner> use(Owner& owner, Instant now) {
    need(now);
    return {use_, &owner};
  }
  void need(Instant now) { until_ = now + kRestAfter; }

  bool is_used() const { return use_.use_count() > 1; }
  bool was_needed_lately(Instant now) const { return now < until_; }
  bool is_there(Instant now) const { return is_used() || was_needed_lately(now); }
  // Called from time to time: the minute begins when the last user has gone.
  void look(Instant now) {
    if (is_used()) need(now);
  }

 private:
  const std::shared_ptr<void> use_ = std::make_shared<char>();
  Instant until_{};
};

}  // namespace pvrdma::transport
