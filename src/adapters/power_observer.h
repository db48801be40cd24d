// PowerObserver: is told which of the cluster's VMs are on. Thread: shard-owned.
#pragma once

#include <string>

namespace pvrdma::adapters {

// Told when a VM of the cluster was powered on or off, that is, its VMM connected or left. Called on the
// shard: must not block.
class PowerObserver {
 public:
  virtual ~PowerObserver() = default;
  virtual void on_power(const std::string& vm, bool on) = 0;
};

}  // namespace pvrdma::adapters
