// PageMarks: tells a VMM which pages an adapter has written, because a VMM does not track what a vfio-user
// device writes. PageMarks asks the VMM to write each page with its present contents, and the VMM then counts
// the page as changed.
//
// The guest must be paused and the adapter stopped meanwhile. Otherwise an old byte could replace a newer
// one.
//
// Thread: step() on the shard; the rest by one other thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "adapters/seated_adapter.h"
#include "base/result.h"
#include "base/time.h"
#include "moves/logged_pages.h"

namespace pvrdma::moves {

class PageMarks : public std::enable_shared_from_this<PageMarks> {
 public:
  enum class State : std::uint8_t { kMore, kSent };

  // Sends as many messages as are allowed: a few, of at most 256 KiB each. kSent: the last message was sent.
  // Errors: those of the log, or of a request.
  Result<State> step(adapters::SeatedAdapter& seated);
  // Waits until a message was answered, or with `all` until every message was. Errors: the VMM's error;
  // ETIMEDOUT.
  Result<void> wait(bool all, Instant until);
  // Waits until every message was answered, with success or error. Returns false if `until` came first.
  bool drain(Instant until);

 private:
  static constexpr std::size_t kMessageBytes = 256u << 10;
  static constexpr std::size_t kUnderWayMax = 8;

  LoggedPages logged_;  // used on the shard, like the next member
  std::vector<std::byte> bytes_;

  std::mutex mutex_;
  std::condition_variable answered_;
  std::size_t under_way_ = 0;     // guarded, like the members below
  std::uint64_t waited_for_ = 0;  // the number of answers at the last wait()
  std::uint64_t answers_ = 0;
  int error_ = 0;
};

}  // namespace pvrdma::moves
