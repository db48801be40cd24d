#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/log_format.h"
#include "base/log_writer.h"

namespace pvrdma::log {
namespace {

constexpr Duration kPatienceAtExit = std::chrono::seconds(1);

std::atomic<Level> lowest = Level::kInfo;

// Never destroyed, because its thread may be inside a write() that does not return.
LogWriter& writer() {
  static LogWriter* const only = [] {
    std::atexit([] { flush(kPatienceAtExit); });
    return new LogWriter(STDERR_FILENO, default_format());
  }();
  return *only;
}

}  // namespace

// systemd names the journal's stream by its device and inode, because a child may redirect its standard
// error.
Format default_format() {
  struct stat state {};
  const char* const stream = std::getenv("JOURNAL_STREAM");
  if (stream == nullptr || ::fstat(STDERR_FILENO, &state) != 0) return Format::kText;
  return stream == fmt::format("{}:{}", state.st_dev, state.st_ino) ? Format::kJournal : Format::kText;
}
void set_format(Format format) {
  writer().set_format(format);
}

void set_level(Level level) {
  lowest.store(level, std::memory_order_relaxed);
}
bool enabled(Level level) {
  return level >= lowest.load(std::memory_order_relaxed);
}
void write(Level level, std::string_view line) noexcept {
  writer().write(level, line);
}
std::string_view format_line(LineRoom& room, fmt::string_view format, fmt::format_args args) noexcept {
  try {
    const auto end = fmt::vformat_to_n(room.data(), room.size(), format, args);
    return {room.data(), std::min(end.size, room.size())};
  } catch (const std::exception&) {
    return {format.data(), format.size()};
  }
}
void write_formatted(Level level, fmt::string_view format, fmt::format_args args) noexcept {
  LineRoom room;
  write(level, format_line(room, format, args));
}
bool flush(Duration patience) noexcept {
  return writer().flush(patience);
}

std::string held_back(const LogLimiter& limiter) {
  if (limiter.suppressed() == 0) return {};
  try {
    return fmt::format(" (and {} more like it before)", limiter.suppressed());
  } catch (const std::bad_alloc&) {
    return {};
  }
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
