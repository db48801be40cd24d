// A time as a text in UTC. Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace pvrdma {

// The unit of a time, by how many make a second.
enum class TimeUnit : std::uint64_t { kSeconds = 1, kMilliseconds = 1'000, kMicroseconds = 1'000'000 };

// "2026-11-27T12:00:00Z", with a fraction if the unit is smaller: "2026-11-27T12:00:00.123Z". `at` counts
// from 1970. A time after the year 9999 is shown as the last one of that year.
std::string utc_text(std::uint64_t at, TimeUnit unit);

}  // namespace pvrdma
