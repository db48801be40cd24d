#include "cm/parked_requests.h"

#include <algorithm>

namespace pvrdma::cm {
namespace {

constexpr Duration kJustNow = std::chrono::seconds(10);
constexpr Duration kParkTime = std::chrono::seconds(1);

std::vector<ParkedRequest> take_if(std::vector<ParkedRequest>& from, auto&& is_wanted) {
  std::vector<ParkedRequest> taken;
  std::ranges::copy_if(from, std::back_inserter(taken), is_wanted);
  std::erase_if(from, is_wanted);
  return taken;
}

}  // namespace

void ParkedRequests::note_closed(std::uint16_t port, Instant now) {
  std::erase_if(closed_at_, [&](const auto& each) { return now - each.second > kJustNow; });
  closed_at_[port] = now;
}

bool ParkedRequests::park(const ParkedRequest& request) {
  const auto closed = closed_at_.find(request.port);
  if (closed == closed_at_.end() || request.since - closed->second > kJustNow) return false;
  const bool is_known = std::ranges::any_of(requests_, [&](const ParkedRequest& each) {
    return each.from == request.from && each.req.local_id == request.req.local_id;
  });
  if (is_known) return true;
  if (requests_.size() == kParkedMax) return false;
  requests_.push_back(request);
  return true;
}

std::vector<ParkedRequest> ParkedRequests::take(std::uint16_t port) {
  return take_if(requests_, [&](const ParkedRequest& each) { return each.port == port; });
}

std::vector<ParkedRequest> ParkedRequests::take_due(Instant now) {
  return take_if(requests_, [&](const ParkedRequest& each) { return each.since + kParkTime <= now; });
}

Instant ParkedRequests::deadline() const {
  return requests_.empty() ? Instant::never() : requests_.front().since + kParkTime;
}

void ParkedRequests::forget(const Gid& from, std::uint32_t local_id) {
  std::erase_if(requests_, [&](const ParkedRequest& each) {
    return each.from == from && each.req.local_id == local_id;
  });
}

}  // namespace pvrdma::cm
