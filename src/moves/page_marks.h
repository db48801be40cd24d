// PageMarks: shows a VMM the pages that an adapter has written: it is asked to write what they hold already,
// and so counts them as changed. A VMM does not look at what a vfio-user device writes.
//
// The guest and the adapter stand meanwhile, or an old byte could replace a newer one.
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

  // Sends as much as there is room for: a few messages, of 256 KiB at most. kSent: the last one is on its
  // way. Errors: the log's; a request's.
  Result<State> step(adapters::SeatedAdapter& seated);
  // Until something was answered, or with `all` everything. Errors: what the VMM answered; ETIMEDOUT.
  Result<void> wait(bool all, Instant until);
  // Until everything is answered, whatever it is. False: `until` came first.
  bool drain(Instant until);

 private:
  static constexpr std::size_t kMessageBytes = 256u << 10;
  static constexpr std::size_t kUnderWayMax = 8;

  LoggedPages logged_;  // the shard's, as the next
  std::vector<std::byte> bytes_;

  std::mutex mutex_;
  std::condition_variable answered_;
  std::size_t under_way_ = 0;     // guarded, as what follows
  std::uint64_t waited_for_ = 0;  // answers, as wait() saw them last
  std::uint64_t answers_ = 0;
  int error_ = 0;
};

}  // namespace pvrdma::moves
