#include "base/log.h"

#include <algorithm>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <utility>

namespace pvrdma::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_color_mt("pvrdma");
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%f %^%l%$ %v");
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_level(Level level) {
  logger().set_level(to_spdlog(level));
}
bool enabled(Level level) {
  return logger().should_log(to_spdlog(level));
}
void write(Level level, std::string_view line) {
  logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

std::string held_back(const LogLimiter& limiter) {
  if (limiter.suppressed() == 0) return {};
  return fmt::format(" (and {} more like it before)", limiter.suppressed());
}

bool LogLimiter::allow(Instant now) {
  const auto elapsed = now - last_refill_;
  if (elapsed >= interval_) {
    const auto earned = elapsed / interval_;
    tokens_ = static_cast<std::uint32_t>(std::min<std::int64_t>(burst_, tokens_ + earned));
    last_refill_ = now;
  }
  if (tokens_ == 0) {
    ++held_back_;
    return false;
  }
  --tokens_;
  reported_ = std::exchange(held_back_, 0);
  return true;
}

}  // namespace pvrdma::log
