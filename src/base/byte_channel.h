// ByteChannel: bytes in order between two threads or hosts that block. Thread: one at a time, but
// interrupt().
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/time.h"

namespace pvrdma {

class ByteChannel {
 public:
  virtual ~ByteChannel() = default;

  // Sends all bytes. Errors: ETIMEDOUT: `until` came first; EPIPE: the other end has gone; otherwise the
  // channel's own, one clause.
  virtual Result<void> send(std::span<const std::byte> bytes, Instant until) = 0;
  // Waits for at least one byte and returns what has arrived. 0: the other end sends no more. Errors: those
  // of send().
  virtual Result<std::size_t> receive(std::span<std::byte> into, Instant until) = 0;
  // Ends the channel and wakes the threads that wait in it. Any thread.
  virtual void interrupt() = 0;
};

}  // namespace pvrdma
