#include "base/utc_text.h"

#include <algorithm>
#include <ctime>
#include <fmt/chrono.h>

namespace pvrdma {
namespace {

constexpr std::uint64_t kLastSecond = 253'402'300'799;  // of the year 9999

}  // namespace

std::string utc_text(std::uint64_t at, TimeUnit unit) {
  const auto per_second = static_cast<std::uint64_t>(unit);
  at = std::min(at, kLastSecond * per_second + (per_second - 1));
  const std::string text =
      fmt::format("{:%Y-%m-%dT%H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(at / per_second)));
  switch (unit) {
    case TimeUnit::kSeconds:
      break;
    case TimeUnit::kMilliseconds:
      return fmt::format("{}.{:03}Z", text, at % per_second);
    case TimeUnit::kMicroseconds:
      return fmt::format("{}.{:06}Z", text, at % per_second);
  }
  return text + "Z";
}

}  // namespace pvrdma
