// AdapterControl: what the control plane may change about running adapters. Thread: any thread but the
// shard's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace pvrdma::control {

enum class Link : bool { kDown, kUp };

// What a capture is to show.
struct CaptureWish {
  std::string adapter;
  std::string filter;            // capture/filter.h; empty: all
  std::uint32_t snap_bytes = 0;  // of each frame at most
  std::uint32_t frames_max = 0;  // 0: any number
  std::uint32_t seconds = 0;     // 0: until its reader or the adapter goes
};

// A file that comes bit by bit. Its destruction ends what brings it.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Appends what there is, a few MiB at most; waits for a tenth of a second at most when there is nothing.
  // False: that was the end.
  virtual bool read(std::string& out) = 0;
};

class AdapterControl {
 public:
  virtual ~AdapterControl() = default;
  // Takes the link between adapter and switch down or up; the guest sees PORT_ERR or PORT_ACTIVE. Blocks for
  // a bounded time. Errors: ENOENT, no such adapter; otherwise the shard is stopping or did not answer in
  // time.
  virtual Result<void> set_link(const std::string& adapter, Link link) = 0;
  // A pcapng file of an adapter's messages from now on. Blocks as set_link() does. Errors: ENOENT, no such
  // adapter; EINVAL, the filter's mistake; EBUSY, too many captures; otherwise as set_link().
  virtual Result<std::unique_ptr<ByteStream>> start_capture(const CaptureWish& wish) = 0;
};

}  // namespace pvrdma::control
