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

  // All of it. Errors: ETIMEDOUT: `until` came first; EPIPE: the other end has gone; otherwise the channel's
  // own, one clause.
  virtual Result<void> send(std::span<const std::byte> bytes, Instant until) = 0;
  // What is there, at least one byte, as soon as there is one; 0: the other end says no more. Errors: as
  // send().
  virtual Result<std::size_t> receive(std::span<std::byte> into, Instant until) = 0;
  // Ends it, so that who waits there does so no longer. Any thread.
  virtual void interrupt() = 0;
};

}  // namespace pvrdma
