// Faults that an operator injects into the messages that adapters send: the request, the result, and the seam
// through which the API asks. Thread: values; Faults any thread but the shard's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace pvrdma::adapters {

// Probabilities are in millionths and apply to each message independently.
struct FaultWish {
  std::string adapter;
  std::uint32_t drop_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t delay_ppm = 0;
  std::uint32_t reorder_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  std::uint32_t late_ms = 1;          // the longest delay of a delayed, reordered or duplicated message
  std::optional<std::uint32_t> seed;  // absent: the daemon draws one
};

// How often each fault happened.
struct FaultCounts {
  std::uint64_t messages = 0;  // all that were sent while the fault existed
  std::uint64_t dropped = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t delayed = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
};

struct FaultState : FaultWish {  // with its seed
  std::uint64_t id = 0;          // never used again while the daemon runs
  FaultCounts counts;
};

class Faults {
 public:
  virtual ~Faults() = default;
  // Each call blocks for a bounded time. kUnavailable: the shard is stopping or does not answer in time.

  // Errors: kNotFound, no such adapter; kConflict, the daemon injects no faults, or the adapter has a fault
  // already.
  virtual Result<FaultState> add(const FaultWish& wish) = 0;
  // Sorted by id.
  virtual Result<std::vector<FaultState>> list() = 0;
  // Removes one fault, or all; late messages are delivered now. Errors: kNotFound, no such fault.
  virtual Result<void> remove(std::optional<std::uint64_t> id) = 0;
};

}  // namespace pvrdma::adapters
