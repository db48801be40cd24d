// Captures of an adapter's messages: the request, and the seam through which the API asks. Thread: values;
// Captures any thread but the shard's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"

namespace pvrdma::adapters {

struct CaptureWish {
  std::string adapter;
  std::string filter;                 // capture/filter.h; empty: all messages
  std::uint32_t snap_bytes = 262144;  // kept of each frame
  std::uint32_t frames_max = 0;       // 0: any number
  std::uint32_t seconds = 0;          // 0: until the reader or the adapter goes away
};

// A capture that runs.
struct CaptureState : CaptureWish {
  std::uint64_t id = 0;          // never used again while the daemon runs
  std::uint64_t started_s = 0;   // since 1970
  std::uint64_t sent_bytes = 0;  // of the file, made so far: the client may not have all of them yet
  std::uint64_t dropped = 0;     // frames for which the ring had no room
};

class Captures {
 public:
  virtual ~Captures() = default;
  // A pcapng file of an adapter's messages from now on. Blocks for a bounded time. Errors: kNotFound, no
  // such adapter; kInvalid, the filter's mistake; kConflict, too many captures; kUnavailable, the shard
  // is stopping or does not answer in time.
  virtual Result<std::unique_ptr<ByteStream>> start(const CaptureWish& wish) = 0;
  // The captures that run, sorted by id.
  virtual std::vector<CaptureState> list() = 0;
  // Ends a capture: its file is complete soon. Errors: kNotFound, no such capture.
  virtual Result<void> end(std::uint64_t id) = 0;
};

}  // namespace pvrdma::adapters
