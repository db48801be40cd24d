// Views: which shard is to have which of the cluster's VMs, as the shards are told by views of the cluster. A
// move between the shards must not meet such a view.
//
// Thread: any but a shard's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "adapters/placement.h"
#include "base/result.h"

namespace pvrdma::adapters {

class Views {
 public:
  virtual ~Views() = default;
  // Runs `move`, which moves the adapter to the shard. No view is sent meanwhile, and later ones have the
  // adapter where it is then. Errors: those of `move`; without a call of `move`: kConflict: the adapter's VM
  // must not be on that shard; kUnavailable: views cannot be kept from the shards now, or other hosts cannot
  // learn on which shard the VM is.
  virtual Result<Placed> while_held(const std::string& adapter, std::uint32_t shard,
                                    const std::function<Result<Placed>()>& move) = 0;
};

}  // namespace pvrdma::adapters
