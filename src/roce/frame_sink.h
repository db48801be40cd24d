// FrameSink: takes frames on their way out, one after the other. Thread: shard-owned.
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

}  // namespace pvrdma::roce
