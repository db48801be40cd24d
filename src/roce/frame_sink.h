// FrameSink: takes outgoing frames, one after the other. FrameFilter: may be put before a FrameSink. Thread:
// shard-owned.
#pragma once

#include <cstddef>

namespace pvrdma::roce {

class FrameSink {
 public:
  virtual ~FrameSink() = default;

  // A place for one frame of kFrameBytesMax bytes, valid until send(), flush() or the next place(). Null:
  // there is no room now.
  virtual std::byte* place() = 0;
  // Sends the frame of `bytes` bytes that the caller has written to the last place().
  virtual void send(std::size_t bytes) = 0;
  // The number of frames for which there is room, at least.
  virtual std::size_t room() const = 0;
};

class FrameFilter {
 public:
  virtual ~FrameFilter() = default;

  // The sink that takes the frames for `sink`, until the next call.
  virtual FrameSink& before(FrameSink& sink) = 0;
};

}  // namespace pvrdma::roce
