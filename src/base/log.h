// Log lines for operators, on standard error.
//
// The data path does not log. A line that a guest can cause at will has a LogLimiter. Thread: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fmt/core.h>
#include <string>
#include <string_view>

#include "base/time.h"

namespace pvrdma::log {

enum class Level { kDebug, kInfo, kWarn, kError };

void set_level(Level level);
bool enabled(Level level);

// A thread of its own writes the lines (log_writer.h), so these functions do not wait for standard error.
// They do not throw. A line that is too long is cut off.
void write(Level level, std::string_view line) noexcept;
void write_formatted(Level level, fmt::string_view format, fmt::format_args args) noexcept;

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kDebug)) write_formatted(Level::kDebug, format, fmt::make_format_args(args...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kInfo)) write_formatted(Level::kInfo, format, fmt::make_format_args(args...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kWarn)) write_formatted(Level::kWarn, format, fmt::make_format_args(args...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kError)) write_formatted(Level::kError, format, fmt::make_format_args(args...));
}

// Allows a burst, then one line per interval, and counts the lines that it suppresses.
// Thread: owned by one thread.
class LogLimiter {
 public:
  LogLimiter(std::uint32_t burst_lines, Duration interval)
      : burst_(burst_lines), interval_(interval), tokens_(burst_lines) {}

  // True if a line may be written at `now`. suppressed() then returns the number of lines suppressed since
  // the last one.
  bool allow(Instant now);
  // The line that was allowed last does not count.
  void give_back() { tokens_ = std::min(burst_, tokens_ + 1); }
  std::uint64_t suppressed() const { return reported_; }

 private:
  std::uint32_t burst_;
  Duration interval_;
  std::uint32_t tokens_;
  Instant last_refill_{};
  std::uint64_t held_back_ = 0;
  std::uint64_t reported_ = 0;
};

// The end of a rate-limited line: "", or " (and N more like it before)".
std::string held_back(const LogLimiter& limiter);

}  // namespace pvrdma::log
