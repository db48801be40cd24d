// On which shard of the host an adapter is, and the seam through which the API changes that.
//
// Thread: any but a shard's.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace pvrdma::adapters {

// How an adapter was moved.
struct Placed {
  std::uint32_t from = 0;
  std::uint32_t to = 0;  // equal to `from`: it was there already
  Duration pause{0};     // for so long the adapter did nothing
};

class Placement {
 public:
  virtual ~Placement() = default;
  // Moves an adapter to a shard. Its guest and its peers see a pause. If there is an error, it works where it
  // was. Blocks for a bounded time. Errors: kNotFound: no such adapter; kInvalid: no such shard; kConflict:
  // the host has one shard, or the adapter cannot move now; kUnavailable: a shard is stopping, does not
  // answer in time, or has no memory.
  virtual Result<Placed> place(const std::string& adapter, std::uint32_t shard) = 0;
};

}  // namespace pvrdma::adapters
