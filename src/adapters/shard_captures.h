// ShardCaptures: captures of the adapters that a shard serves. The shard fills a capture's ring; the thread
// that asked for the capture reads the ring and makes the file. Thread: any but the shard's.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "adapters/adapter_set.h"
#include "adapters/captures.h"
#include "base/reaper.h"
#include "shard/loop.h"

namespace pvrdma::adapters {

class ShardCaptures final : public Captures {
 public:
  // All borrowed but the version; they outlive this, every call and every capture. `adapters` is used on the
  // shard only.
  ShardCaptures(shard::Loop& loop, const AdapterSet& adapters, Reaper& reaper, std::string version)
      : loop_(loop), adapters_(adapters), reaper_(reaper), version_(std::move(version)) {}

  Result<std::unique_ptr<ByteStream>> start(const CaptureWish& wish) override;

 private:
  class Place;
  class Stream;

  shard::Loop& loop_;
  const AdapterSet& adapters_;
  Reaper& reaper_;
  const std::string version_;
  std::atomic<std::size_t> taken_{0};  // captures that exist
};

}  // namespace pvrdma::adapters
