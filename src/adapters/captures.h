// Captures of an adapter's messages: the request, and the seam through which the API asks. Thread: values;
// Captures any thread but the shard's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

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

class Captures {
 public:
  virtual ~Captures() = default;
  // A pcapng file of an adapter's messages from now on. Blocks for a bounded time. Errors: kNotFound, no
  // such adapter; kInvalid, the filter's mistake; kConflict, too many captures; kUnavailable, the shard
  // is stopping or does not answer in time.
  virtual Result<std::unique_ptr<ByteStream>> start(const CaptureWish& wish) = 0;
};

}  // namespace pvrdma::adapters
