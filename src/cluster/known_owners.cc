#include "cluster/known_owners.h"

#include <algorithm>

namespace pvrdma::cluster {

void KnownOwners::begin_round() {
  before_ = std::exchange(answers_, {});
}

Result<SocketOwner> KnownOwners::find(const std::string& user, const std::string& group, Instant now) {
  if (user.empty() && group.empty()) return SocketOwner{};
  const Names names{user, group};
  if (auto known = before_.extract(names); !known.empty()) answers_.insert(std::move(known));
  const auto known = answers_.find(names);
  if (known != answers_.end() && now < known->second.again) return known->second.owner;
  Result<SocketOwner> found = look_up_(user, group);
  const bool is_missing = !found;
  const Instant again = now + (found ? kFoundLasts : kFailureLasts);
  const bool stays = is_missing && found.error().kind == ErrorKind::kUnavailable && known != answers_.end() &&
                     known->second.owner;
  if (stays) found = known->second.owner;
  answers_.insert_or_assign(names, Answer{found, again, is_missing});
  return found;
}

bool KnownOwners::is_due(Instant now) const {
  return std::ranges::any_of(
      answers_, [now](const auto& entry) { return entry.second.is_missing && now >= entry.second.again; });
}

}  // namespace pvrdma::cluster
