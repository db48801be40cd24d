// ShardControl: carries the control plane's changes to the shard and waits until they are done.
//
// Thread: set_link() any thread but the shard's.
#pragma once

#include <string>

#include "adapters/adapter_set.h"
#include "control/adapter_control.h"
#include "shard/loop.h"

namespace pvrdma::daemon {

class ShardControl final : public control::AdapterControl {
 public:
  // Both borrowed; they outlive this and every call. `adapters` is used on the shard only.
  ShardControl(shard::Loop& loop, const adapters::AdapterSet& adapters) : loop_(loop), adapters_(adapters) {}

  Result<void> set_link(const std::string& adapter, control::Link link) override;

 private:
  shard::Loop& loop_;
  const adapters::AdapterSet& adapters_;
};

}  // namespace pvrdma::daemon
