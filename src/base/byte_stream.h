// ByteStream: a file whose bytes arrive over time, for example a capture. Thread: one reader.
#pragma once

#include <string>

namespace pvrdma {

// The destructor ends the work that produces the bytes.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Appends the bytes that have arrived, a few MiB at most. Waits for a tenth of a second at most if none
  // have. False: the stream has ended.
  virtual bool read(std::string& out) = 0;
};

}  // namespace pvrdma
