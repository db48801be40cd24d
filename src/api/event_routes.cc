// GET /v1/events: the newest events of this daemon, by pages.
#include <cstdint>
#include <fmt/core.h>

#include "api/event_views.h"
#include "api/routes.h"

namespace pvrdma::api {
namespace {

constexpr std::uint64_t kEventsByDefault = 256;

Reply list(const events::EventRing& ring, const Call& call) {
  const auto after = number_of(call, "after", 0);
  if (!after) return refuse(after.error());
  const auto limit = number_of(call, "limit", kEventsByDefault);
  if (!limit) return refuse(limit.error());
  if (*limit == 0 || *limit > kEventsMax) {
    return refuse(ErrorKind::kInvalid, fmt::format("limit is {}: give 1 to {}", *limit, kEventsMax));
  }
  return ok(text_of(EventPage{ring.page(*after, *limit)}));
}

}  // namespace

void add_event_route(Router& router, const ApiParts& parts) {
  router.add({.method = "GET",
              .path = "/v1/events",
              .summary = "What happened to this daemon's objects, from the event after a number on",
              .body = nullptr,
              .answer = schema_for<EventPage>,
              .handler = [&ring = parts.event_ring](const Call& call) { return list(ring, call); },
              .query = {"after", "limit"}});
}

}  // namespace pvrdma::api
