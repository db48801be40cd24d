// KnownOwners: the owners of sockets, looked up by name no more often than they may change. A user database
// can be a directory service, which may be slow or away for a while.
//
// Thread: one. find() blocks as the system's user database does.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/time.h"
#include "cluster/shard_view.h"

namespace pvrdma::cluster {

class KnownOwners {
 public:
  static constexpr Duration kFoundLasts = std::chrono::minutes(1);
  static constexpr Duration kFailureLasts = std::chrono::seconds(5);

  explicit KnownOwners(FindOwner look_up = find_owner) : look_up_(std::move(look_up)) {}

  // Begins a round of find() calls. An owner that no call of this round looks for is forgotten at the next
  // round.
  void begin_round();
  // If a look-up fails, which does not say that the owner does not exist, an owner that was found before
  // stays.
  Result<SocketOwner> find(const std::string& user, const std::string& group, Instant now);
  // Whether an owner that was not found in this round may be looked up again.
  bool is_due(Instant now) const;

 private:
  using Names = std::pair<std::string, std::string>;  // user, group
  struct Answer {
    Result<SocketOwner> owner;
    Instant again;            // then it is looked up again
    bool is_missing = false;  // the last look-up did not find it
  };

  const FindOwner look_up_;
  std::map<Names, Answer> answers_;  // of this round
  std::map<Names, Answer> before_;   // of the round before
};

}  // namespace pvrdma::cluster
