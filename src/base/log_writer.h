// LogWriter: takes log lines to standard error on a thread of its own, because whoever reads that pipe may
// have stopped.
//
// Lines wait in a ring of fixed size, allocated once. What does not fit is dropped and counted, and the count
// is a line as soon as there is room again. The process has one: it lives as long as the process, and its
// thread is left alone at the end, for it may be inside a write() that never returns.
//
// Thread: any.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/time.h"

namespace pvrdma::log {

class LogWriter {
 public:
  static constexpr std::size_t kRingBytes = 256u << 10;
  static constexpr std::size_t kLineBytes = 4096;  // of a line; the rest is cut off

  // Lines go to `fd`, borrowed for ever. Without memory for the ring or a thread every line is dropped.
  explicit LogWriter(int fd);

  // Waits for the copy of another thread's line at most. Never throws.
  void write(Level level, std::string_view line) noexcept;

  // Waits at most `patience` until all earlier lines have left. False: some have not.
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
  mutable std::mutex mutex_;  // held for copies only
  std::condition_variable filled_;
  std::condition_variable emptied_;
  std::unique_ptr<std::byte[]> ring_;  // null: there is no thread
  std::size_t in_ = 0;                 // both count for ever
  std::size_t out_ = 0;
  std::size_t done_ = 0;  // out_ of the last line that has left
  std::uint64_t dropped_ = 0;
  std::uint64_t dropped_told_ = 0;
};

// As LogWriter's, of the process's. Done at exit, too, for a second.
bool flush(Duration patience) noexcept;

}  // namespace pvrdma::log
