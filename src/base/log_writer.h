// LogWriter: writes log lines to standard error on a thread of its own, because the reader of that pipe may
// have stopped.
//
// A message may contain what guests, VMMs and peers wrote: it becomes one harmless line (base/clean_text.h).
//
// Lines wait in a ring of fixed size, allocated once. A line that does not fit is dropped and counted; after
// the next line that is written, another one gives the count. The process has one LogWriter, which is never
// destroyed. Its thread is not joined at exit, because it may be inside a write() that never returns.
//
// Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <fmt/core.h>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/log_format.h"
#include "base/time.h"

namespace pvrdma::log {

class LogWriter {
 public:
  static constexpr std::size_t kRingBytes = 256u << 10;
  static constexpr std::size_t kLineBytes = 4096;  // the longest message; the rest is cut off

  // Writes lines to `fd`, which is borrowed for ever. Without memory for the ring, or without a thread, every
  // line is dropped.
  LogWriter(int fd, Format format);

  // For the lines that are not yet written.
  void set_format(Format format) { format_.store(format, std::memory_order_relaxed); }

  // Waits at most while another thread copies a line. Never throws.
  void write(Level level, std::string_view line) noexcept;

  // Waits at most `patience` until all earlier lines are written. False: some are not.
  bool flush(Duration patience) noexcept;

  std::uint64_t dropped() const;

 private:
  struct Record {
    std::int64_t at_ns;  // since the epoch
    std::uint32_t bytes;
    Level level;
  };

  [[noreturn]] void run();
  void write_lines(const Record& record, std::string_view text, std::uint64_t lost) const noexcept;
  void put(const void* bytes, std::size_t count);
  void get(void* bytes, std::size_t count);
  void write_line(const Record& record, std::string_view text) const;

  const int fd_;
  std::atomic<Format> format_;
  mutable std::mutex mutex_;  // held for copies only
  std::condition_variable filled_;
  std::condition_variable emptied_;
  std::unique_ptr<std::byte[]> ring_;  // null: there is no thread
  std::size_t in_ = 0;                 // in_ and out_ are totals since the start
  std::size_t out_ = 0;
  std::size_t done_ = 0;  // out_ after the last line that was written
  std::uint64_t dropped_ = 0;
  std::uint64_t dropped_told_ = 0;
};

using LineRoom = std::array<char, LogWriter::kLineBytes>;

// Formats a message into `room`; the end of one that is too long is cut off. Without memory the result is the
// format itself, which is better than no line.
std::string_view format_line(LineRoom& room, fmt::string_view format, fmt::format_args args) noexcept;

// LogWriter::flush() of the process's writer. Also called at exit, with a patience of one second.
bool flush(Duration patience) noexcept;

}  // namespace pvrdma::log
