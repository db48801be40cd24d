// ByteChannel: carries bytes in order between two threads or hosts. Its calls block. Thread: one at a time;
// interrupt() any.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/time.h"

namespace pvrdma {

class ByteChannel {
 public:
  virtual ~ByteChannel() = default;

  // Sends all bytes. Errors, one clause each: ETIMEDOUT: `until` came first; EPIPE: the other end has gone,
  // or the connection broke; other codes are the implementation's.
  virtual Result<void> send(std::span<const std::byte> bytes, Instant until) = 0;
  // Waits for at least one byte, and returns how many bytes it has put into `into`. 0: the other end sends no
  // more. Errors: those of send().
  virtual Result<std::size_t> receive(std::span<std::byte> into, Instant until) = 0;
  // Ends the channel and wakes the threads that wait in it. Any thread.
  virtual void interrupt() = 0;
};

}  // namespace pvrdma
