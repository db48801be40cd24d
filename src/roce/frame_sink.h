// FrameSink: takes frames on their way out, one after the other; FrameFilter: what may stand before one.
// Thread: shard-owned.
#pragma once

#include <cstddef>

namespace pvrdma::roce {

class FrameSink {
 public:
  virtual ~FrameSink() = default;

  // Room for one frame of kFrameBytesMax, until send(), flush() or the next place(); null: none now.
  virtual std::byte* place() = 0;
  // What place() gave last holds a frame so long.
  virtual void send(std::size_t bytes) = 0;
  // How many frames there is room for, at least.
  virtual std::size_t room() const = 0;
};

class FrameFilter {
 public:
  virtual ~FrameFilter() = default;

  // What to give frames for `sink` to, until the next call.
  virtual FrameSink& before(FrameSink& sink) = 0;
};

}  // namespace pvrdma::roce
