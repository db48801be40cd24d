// ShardControl: carries the control plane's changes to the shard and waits until they are done.
//
// A capture's ring is filled on the shard and read, and made a file of, on the thread that asked for it.
//
// Thread: any but the shard's.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "adapters/adapter_set.h"
#include "base/reaper.h"
#include "control/adapter_control.h"
#include "shard/loop.h"

namespace pvrdma::daemon {

class ShardControl final : public control::AdapterControl {
 public:
  // All borrowed but the version; they outlive this, every call and every capture. `adapters` is used on the
  // shard only.
  ShardControl(shard::Loop& loop, const adapters::AdapterSet& adapters, Reaper& reaper, std::string version)
      : loop_(loop), adapters_(adapters), reaper_(reaper), version_(std::move(version)) {}

  Result<void> set_link(const std::string& adapter, control::Link link) override;
  Result<std::unique_ptr<control::ByteStream>> start_capture(const control::CaptureWish& wish) override;

 private:
  class CaptureStream;

  shard::Loop& loop_;
  const adapters::AdapterSet& adapters_;
  Reaper& reaper_;
  const std::string version_;
  std::atomic<std::size_t> captures_{0};
};

}  // namespace pvrdma::daemon
