#include "base/log_writer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <new>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "base/clean_text.h"
#include "base/utc_text.h"

namespace pvrdma::log {
namespace {

std::string_view name_of(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarn:
      return "warning";
    case Level::kError:
      return "error";
  }
  return "info";
}

// sd-daemon(3): the priorities of syslog.
char priority_of(Level level) {
  switch (level) {
    case Level::kDebug:
      return '7';
    case Level::kInfo:
      return '6';
    case Level::kWarn:
      return '4';
    case Level::kError:
      return '3';
  }
  return '6';
}

std::string time_text(std::int64_t at_ns) {
  return utc_text(static_cast<std::uint64_t>(at_ns) / 1000, TimeUnit::kMicroseconds);
}

std::string line_of(Format format, std::int64_t at_ns, Level level, const std::string& message) {
  switch (format) {
    case Format::kText:
      break;
    case Format::kJournal:
      return fmt::format("<{}>{}\n", priority_of(level), message);
    case Format::kJson:
      return nlohmann::ordered_json{
                 {"time", time_text(at_ns)}, {"level", name_of(level)}, {"message", message}}
                 .dump() +
             "\n";
  }
  return fmt::format("{} {} {}\n", time_text(at_ns), name_of(level), message);
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Writes all bytes, even if the descriptor is non-blocking (all processes on a terminal share that flag).
void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(done));
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return;  // the reader is gone, and the error cannot be reported
    }
  }
}

}  // namespace

LogWriter::LogWriter(int fd, Format format)
    : fd_(fd), format_(format), ring_(new (std::nothrow) std::byte[kRingBytes]) {
  if (ring_ == nullptr) return;
  try {
    std::thread([this] {
      ::pthread_setname_np(::pthread_self(),
                           "log");  // another thread's name is a file, which the sandbox forbids
      run();
    }).detach();
  } catch (const std::system_error&) {
    ring_.reset();
  }
}

void LogWriter::write(Level level, std::string_view line) noexcept {
  const Record record{now_ns(), static_cast<std::uint32_t>(std::min(line.size(), kLineBytes)), level};
  const std::lock_guard lock(mutex_);
  if (ring_ == nullptr || kRingBytes - (in_ - out_) < sizeof(record) + record.bytes) {
    ++dropped_;
    return;
  }
  put(&record, sizeof(record));
  put(line.data(), record.bytes);
  filled_.notify_one();
}

bool LogWriter::flush(Duration patience) noexcept {
  std::unique_lock lock(mutex_);
  const std::size_t end = in_;
  return emptied_.wait_for(lock, patience, [this, end] { return done_ >= end; });
}

std::uint64_t LogWriter::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void LogWriter::run() {
  std::unique_lock lock(mutex_);
  std::string text(kLineBytes, '\0');
  while (true) {
    filled_.wait(lock, [this] { return in_ != out_; });
    Record record{};
    get(&record, sizeof(record));
    text.resize(record.bytes);
    get(text.data(), text.size());
    const std::uint64_t lost = dropped_ - dropped_told_;
    lock.unlock();
    write_lines(record, text, lost);
    lock.lock();
    dropped_told_ += lost;
    done_ = out_;
    emptied_.notify_all();
  }
}

void LogWriter::write_lines(const Record& record, std::string_view text, std::uint64_t lost) const noexcept {
  try {
    write_line(record, text);
    if (lost == 0) return;
    write_line({now_ns(), 0, Level::kWarn},
               fmt::format("log: {} line(s) were dropped: standard error did not take them in time", lost));
  } catch (const std::exception&) {
    // There is no memory to format the line, so it is lost.
  }
}

void LogWriter::put(const void* bytes, std::size_t count) {
  const std::size_t at = in_ % kRingBytes;
  const std::size_t first = std::min(count, kRingBytes - at);
  std::memcpy(ring_.get() + at, bytes, first);
  std::memcpy(ring_.get(), static_cast<const std::byte*>(bytes) + first, count - first);
  in_ += count;
}

void LogWriter::get(void* bytes, std::size_t count) {
  const std::size_t at = out_ % kRingBytes;
  const std::size_t first = std::min(count, kRingBytes - at);
  std::memcpy(bytes, ring_.get() + at, first);
  std::memcpy(static_cast<std::byte*>(bytes) + first, ring_.get(), count - first);
  out_ += count;
}

void LogWriter::write_line(const Record& record, std::string_view text) const {
  write_all(fd_,
            line_of(format_.load(std::memory_order_relaxed), record.at_ns, record.level, clean_text(text)));
}

}  // namespace pvrdma::log
