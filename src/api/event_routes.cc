// GET /v1/events: the newest events of this daemon, by pages.
#include <chrono>
#include <cstdint>
#include <fmt/core.h>
#include <string>

#include "api/event_views.h"
#include "api/routes.h"

namespace pvrdma::api {
namespace {

constexpr std::uint64_t kEventsByDefault = 256;

Reply list(const events::EventRing& ring, const Call& call) {
  const auto after = number_of(call, "after");
  if (!after) return refuse(after.error());
  const auto given_limit = number_of(call, "limit");
  if (!given_limit) return refuse(given_limit.error());
  const std::uint64_t limit = given_limit->value_or(kEventsByDefault);
  if (limit == 0 || limit > kEventsMax) {
    return refuse(ErrorKind::kInvalid, fmt::format("limit is {}: give 1 to {}", limit, kEventsMax));
  }
  return ok(text_of(EventPage{ring.page(*after, limit)}));
}

}  // namespace

const std::string& boot_id() {
  static const std::string id = std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(
                                                   std::chrono::system_clock::now().time_since_epoch())
                                                   .count());
  return id;
}

void add_event_route(Router& router, const ApiParts& parts) {
  router.add({.method = "GET",
              .path = "/v1/events",
              .summary = "What happened to this daemon's objects: the events after a number, or the newest",
              .body = nullptr,
              .answer = schema_for<EventPage>,
              .handler = [&ring = parts.event_ring](const Call& call) { return list(ring, call); },
              .query = {"after", "limit"},
              .query_numbers = true});
}

}  // namespace pvrdma::api
