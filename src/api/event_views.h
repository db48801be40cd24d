// The newest events as the API shows them: GET /v1/events, and the events of a watch.
//
// Thread: values.
#pragma once

#include <cstdint>
#include <string>

#include "base/event_ring.h"
#include "control/config/tables.h"
#include "schema/rules.h"

namespace pvrdma {
namespace api {

inline constexpr std::uint64_t kEventsMax = events::EventRing::kSlots;  // of one answer

// Distinguishes the daemon's processes: another one has other counters and other events.
const std::string& boot_id();

struct EventPage : events::Page {
  std::string boot = boot_id();
};

}  // namespace api

namespace schema {

template <>
inline constexpr auto kObject<events::Event> =
    record("Event", field("sequence", &events::Event::sequence), field("at_ms", &events::Event::at_ms),
           field("level", &events::Event::level), field("type", &events::Event::type),
           field("kind", &events::Event::kind), field("object", &events::Event::object),
           field("initiator", &events::Event::initiator), field("text", &events::Event::text));

template <>
inline constexpr auto kObject<api::EventPage> = record("EventPage", field("boot", &api::EventPage::boot),
                                                       field("events", &api::EventPage::events),
                                                       field("last", &api::EventPage::last),
                                                       field("lost", &api::EventPage::lost));

}  // namespace schema
}  // namespace pvrdma
